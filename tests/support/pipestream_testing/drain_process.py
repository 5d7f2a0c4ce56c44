"""A drain without Spark in a process of its own, for tests that kill or stop it: GRAPH TOPIC RUN_ID.

Ends as the Spark job does: with 0, with 1 (the same run may be tried again) or with 2 (failed for good).
"""

from __future__ import annotations

import faulthandler
import json
import logging
import signal
import sys
from pathlib import Path

from pipestream.errors import PipestreamError
from pipestream.settings import load_settings
from pipestream_testing.pipeline import Pipeline


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # A test that gives up waiting asks where it hangs.
    faulthandler.register(signal.SIGUSR1)
    graph_file, topic, run_id = sys.argv[1:]
    pipeline = Pipeline(load_settings(), Path(graph_file))
    try:
        report = pipeline.drain(topic, run_id)
    except PipestreamError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1 if error.transient else 2
    sys.stdout.write(json.dumps(report.to_fields()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
