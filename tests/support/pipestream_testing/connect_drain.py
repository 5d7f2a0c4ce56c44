"""Drains on a Spark Connect server, each in a process of its own: GRAPH TOPIC RUN_ID, as ``drain_process``."""

from __future__ import annotations

import sys
from pathlib import Path

from pipestream.drain.job import job_arguments
from pipestream.drain.request import DrainRequest
from pipestream.graph.load import load_graph
from pipestream.settings import load_settings
from pipestream_spark import drain


def main() -> int:
    graph_file, topic, run_id = sys.argv[1:]
    settings = load_settings()
    assert settings.spark_mode == "connect", "the test's settings must ask for it"
    request = DrainRequest(load_graph(Path(graph_file)), topic, run_id, settings.drain_budget)
    # The caller is this process, so the job watches nobody.
    sys.argv[1:] = job_arguments(request, Path(graph_file), Path(graph_file).with_name(f"{run_id}.outcome.json"))
    return drain.main()


if __name__ == "__main__":
    sys.exit(main())
