from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest

from pipestream.cli.submit import job_arguments
from pipestream.drain.backfill import Backfill
from pipestream.drain.model import DrainRequest
from pipestream.graph.hashing import graph_hash
from pipestream.graph.load import check_graph_text
from pipestream.graph.write import to_yaml
from spark_jobs.drain import _backfill, _parse_arguments

GRAPH = check_graph_text(b"graph: g\ncluster: c\nnodes: [{id: a, type: connector}]\n", "g.yaml").require()
SINCE, UNTIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "request_",
    [
        DrainRequest(GRAPH, "t", "run-1", 7),
        DrainRequest(GRAPH, "t", "run-1", 7, accept_failures=True, start_at="latest"),
        DrainRequest(GRAPH, "t", "run-1", 7, Backfill("b", since=SINCE, until=UNTIL, doc_ids=("x", "y"))),
        DrainRequest(GRAPH, "t", "run-1", 7, Backfill("b", since=SINCE)),
        DrainRequest(GRAPH, "t", "run-1", 7, Backfill("b", offsets={0: (1, 5), 1: (0, 3)})),
    ],
)
def test_the_spark_job_is_told_the_whole_request(monkeypatch, request_):
    monkeypatch.setattr(sys, "argv", ["drain.py", "--graph", "g.yaml", *job_arguments(request_)])

    read = _parse_arguments()

    assert (
        DrainRequest(GRAPH, read.topic, read.run_id, read.budget, _backfill(read), read.accept_failures, read.start_at)
        == request_
    )


def test_the_graph_that_is_submitted_is_the_same_graph():
    again = check_graph_text(to_yaml(GRAPH).encode(), "again.yaml").require()

    assert graph_hash(again) == graph_hash(GRAPH)
