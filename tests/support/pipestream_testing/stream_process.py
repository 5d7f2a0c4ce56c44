"""A stream of one topic in a process of its own, for tests that kill it: GRAPH TOPIC RUN_ID. SIGTERM ends it."""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
from pathlib import Path

from pipestream.settings import load_settings
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import stream_slot


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # A test that gives up waiting asks where it hangs.
    faulthandler.register(signal.SIGUSR1)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    graph_file, topic, run_id = sys.argv[1:]
    ended = stream_slot(Pipeline(load_settings(), Path(graph_file)), topic, stop, run_id=run_id)
    sys.stdout.write(f"{ended}\n")
    return 0 if ended.error is None else 2


if __name__ == "__main__":
    sys.exit(main())
