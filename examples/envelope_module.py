"""An actor that reads envelopes. Run ``python envelope_module.py /run/split.sock``.

In a graph: ``module: "unix:/run/split.sock"`` with ``protocol: envelope``. Each message has its length in front.
"""

import json
import socketserver
import struct
import sys


class Split(socketserver.StreamRequestHandler):
    def handle(self):
        (length,) = struct.unpack(">I", self.rfile.read(4))
        envelope = json.loads(self.rfile.read(length))
        route = {**envelope["route"], "current": envelope["route"]["current"] + 1}
        words = envelope["payload"]["search_metadata"]["title"].split()
        answer = [
            {"payload": {"doc_id": f"{envelope['id']}-{word}", "search_metadata": {"title": word}}, "route": route}
            for word in words
        ]
        data = json.dumps(answer).encode()
        self.wfile.write(struct.pack(">I", len(data)) + data)


if __name__ == "__main__":
    with socketserver.UnixStreamServer(sys.argv[1], Split) as server:
        print("listening", flush=True)
        server.serve_forever()
