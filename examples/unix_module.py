"""A program behind a Unix socket, in any language. Run ``python unix_module.py /run/shout.sock``.

In a graph: ``module: "unix:/run/shout.sock"``. It needs nothing of Pipestream: JSON comes in, JSON goes out.
"""

import json
import socketserver
import sys


class Shout(socketserver.StreamRequestHandler):
    def handle(self):
        document = json.loads(self.rfile.read())
        try:
            document["search_metadata"]["title"] = document["search_metadata"]["title"].upper()
        except KeyError as error:
            document = {"error": "processing_error", "message": f"no {error}", "type": "KeyError"}
        self.wfile.write(json.dumps(document).encode())


if __name__ == "__main__":
    with socketserver.UnixStreamServer(sys.argv[1], Shout) as server:
        print("listening", flush=True)
        server.serve_forever()
