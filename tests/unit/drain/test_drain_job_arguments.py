from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipestream.drain.backfill import Backfill
from pipestream.drain.caller import name_caller
from pipestream.drain.job import find_drain_job, job_arguments, parse_arguments, read_request
from pipestream.drain.request import DrainRequest
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import graph_hash
from pipestream.graph.write import to_yaml
from pipestream.settings import Settings

GRAPH = check_graph_text(b"graph: g\ncluster: c\nnodes: [{id: a, type: connector}]\n", "g.yaml").require()
SINCE, UNTIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture
def graph_file(tmp_path) -> Path:
    file = tmp_path / "g.yaml"
    file.write_text(to_yaml(GRAPH))
    return file


@pytest.mark.parametrize(
    "request_",
    [
        DrainRequest(GRAPH, "t", "run-1", 7),
        DrainRequest(GRAPH, "t", "run-1", 7, accept_failures=True, start_at="latest"),
        DrainRequest(GRAPH, "t", "run-1", 7, Backfill("b", since=SINCE, until=UNTIL, doc_ids=("x", "y"))),
        DrainRequest(GRAPH, "t", "--run 1", 7, Backfill("b", since=SINCE, doc_ids=("-x", "--topic", "a b"))),
        DrainRequest(GRAPH, "t", "run-1", 7, Backfill("b", offsets={0: (1, 5), 1: (0, 3)})),
    ],
)
def test_the_job_gets_the_whole_request(graph_file, request_):
    arguments = parse_arguments(job_arguments(request_, graph_file, Path("outcome.json")))

    assert read_request(arguments, Settings()) == request_
    assert arguments.outcome == Path("outcome.json")
    assert arguments.caller == name_caller()


def test_a_job_without_a_budget_uses_that_of_the_settings(graph_file):
    arguments = parse_arguments(["--graph", str(graph_file), "--topic", "t", "--run-id", "run-1"])

    assert read_request(arguments, Settings(drain_budget=77)).budget == 77


def test_the_job_is_found_where_the_project_is_installed():
    assert Path(find_drain_job()).parts[-2:] == ("pipestream_spark", "drain.py")


def test_the_graph_that_is_submitted_is_the_same_graph():
    again = check_graph_text(to_yaml(GRAPH).encode(), "again.yaml").require()

    assert graph_hash(again) == graph_hash(GRAPH)
