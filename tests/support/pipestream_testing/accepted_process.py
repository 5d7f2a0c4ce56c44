"""A slot of the accepted log in a process of its own, for tests that kill it: TOPIC NAME.

Reads keys, one a line, and writes ``KEY ANSWER`` for each that is accepted. The answer names the process, so that a
test can tell whose it is. Every few keys it waits for the answers, so that the keys take several transactions.
"""

from __future__ import annotations

import logging
import os
import sys
from concurrent.futures import Future

from pipestream.accepted import AcceptedSlot, Submission, content_digest
from pipestream.kafka.records import OutputRecord
from pipestream.settings import load_settings

_AT_ONCE = 30


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    topic, name = sys.argv[1:]
    slot = AcceptedSlot(load_settings(), 0, 1, name)
    slot.start()

    def write(key: str, future: Future[bytes]) -> None:
        sys.stdout.write(f"{key} {future.result().decode()}\n")
        sys.stdout.flush()

    for number, line in enumerate(sys.stdin, start=1):
        key = line.strip()
        output = OutputRecord(topic, key.encode(), key.encode())
        submission = Submission([output], str(os.getpid()).encode(), key, content_digest(key.encode()))
        future = slot.submit(submission)
        future.add_done_callback(lambda future, key=key: write(key, future))  # type: ignore[misc]
        if number % _AT_ONCE == 0:
            future.result()
    slot.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
