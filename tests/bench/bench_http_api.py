"""How long the page waits: every route that it polls, for a graph of 200 nodes and a ledger of 100,000 entries."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from pipestream import apply_graph
from pipestream.graph.flow import drained_topics
from pipestream.graph.load import load_graph
from pipestream.kafka.broker import Broker
from pipestream.ledger import Ledger, Tally
from pipestream_testing.bench import sized
from pipestream_testing.made import make_entry
from pipestream_testing.web_server import web_server

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.full_form]

NODES = sized(200, 20)
ENTRIES = sized(100_000, 5_000)
ROUNDS = sized(15, 5)
RUNS_A_COMMIT = 20
TARGET_MS = 300
POLLED = ["", "/numbers", "/state", "/assignments", "/history", "/ledger/entries", "/ledger/runs", "/ledger/gaps"]
POLLED += ["/ledger/series", "/dead-letters/groups"]


def graph_text(graph_id: str) -> str:
    """A chain of nodes, each with an edge by Kafka to the next and a condition."""
    nodes = "\n".join(f"  - {{id: n{number}, type: connector}}" for number in range(NODES))
    edges = "\n".join(
        f"  - {{from: n{number}, to: n{number + 1}, when: 'doc.search_metadata.title != \"{number}\"'}}"
        for number in range(NODES - 1)
    )
    source = f"datasources: [{{id: {graph_id}, account: acme, entry: n0}}]"
    return f"graph: {graph_id}\ncluster: {graph_id}\n{source}\nnodes:\n{nodes}\nedges:\n{edges}\n"


def fill(settings, graph) -> None:
    """Enter ranges of all topics over the last hours, twenty runs a commit, as files are after upkeep."""
    ledger, broker = Ledger(settings), Broker(settings)
    topics = {each.topic: broker.identify(each.topic).topic_id for each in drained_topics(graph)}
    runs = ENTRIES // len(topics)
    now = datetime.now(UTC)
    for first in range(0, runs, RUNS_A_COMMIT):
        ledger.enter(
            [
                make_entry(
                    10 * run,
                    10 * run + 10,
                    topic=topic,
                    run_id=f"run-{run}",
                    lane=graph.graph_id,
                    graph_id=graph.graph_id,
                    topic_id=topic_id,
                    tally=Tally(10, {"e": 9}, 1),
                    entered_at=now - timedelta(seconds=20 * (runs - run)),
                )
                for run in range(first, min(first + RUNS_A_COMMIT, runs))
                for topic, topic_id in topics.items()
            ]
        )


def test_answers_while_a_page_is_open(stack, settings, unique, tmp_path, scenario):
    folder = tmp_path / "graphs"
    folder.mkdir()
    file = folder / f"{unique}.yaml"
    file.write_text(graph_text(unique))
    apply_graph(file, settings=settings)
    fill(settings, load_graph(file))
    made = scenario("http-api", f"Answers of the HTTP API: {NODES} nodes, {ENTRIES} entries in the ledger, warm")
    changed = settings.model_copy(update={"graphs_folder": folder, "web_timeout_s": 120.0})
    with web_server(stack, changed, tmp_path) as web:
        paths = {"list": "/pipelines"} | {path or "one": f"/pipelines/{unique}{path}" for path in POLLED}
        took: dict[str, list[float]] = {name: [] for name in paths}
        for number in range(ROUNDS + 1):
            for name, path in paths.items():
                began = time.perf_counter()
                web.get(path)
                if number:  # the first round warms up
                    took[name].append(1000 * (time.perf_counter() - began))
    for name, values in took.items():
        made.add(name, "ms", *values)
        made.want_of(name, name, at_most=TARGET_MS)
