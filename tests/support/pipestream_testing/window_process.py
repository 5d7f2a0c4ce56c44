"""As ``stream_process``, over a runner whose tasks stay for a window, as Spark's do: GRAPH TOPIC RUN_ID."""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
from pathlib import Path

from pipestream.drain.local_runner import LocalRunner
from pipestream.kafka.broker import Broker
from pipestream.settings import load_settings
from pipestream.stream.executors import RunnerExecutor
from pipestream.stream.windows import Windows
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import stream_slot


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # A test that gives up waiting asks where it hangs.
    faulthandler.register(signal.SIGUSR1)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    graph_file, topic, run_id = sys.argv[1:]
    settings = load_settings()
    runner = LocalRunner(settings)
    executor = RunnerExecutor(settings, runner, runner.cancel, Broker(settings), Windows(lambda: 1))
    pipeline = Pipeline(settings, Path(graph_file))
    ended = stream_slot(pipeline, topic, stop, run_id=run_id, executor=executor)
    sys.stdout.write(f"{ended}\n")
    return 0 if ended.error is None else 2


if __name__ == "__main__":
    sys.exit(main())
