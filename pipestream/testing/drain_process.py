"""A drain without Spark in a process of its own, for tests that kill or stop it: GRAPH TOPIC RUN_ID."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from pipestream.settings import load_settings
from pipestream.testing.pipeline import Pipeline


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    graph_file, topic, run_id = sys.argv[1:]
    report = Pipeline(load_settings(), Path(graph_file)).drain(topic, run_id)
    sys.stdout.write(json.dumps(report.as_dict()) + "\n")


if __name__ == "__main__":
    main()
