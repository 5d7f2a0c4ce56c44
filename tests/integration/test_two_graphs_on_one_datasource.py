"""Two graphs on one datasource drain its intake topic each for itself, and neither waits for the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from pipestream.leases import open_lease_store
from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("consul")]

GRAPH = """
graph: UNIQUE-NAME
cluster: UNIQUE
datasources:
  - {id: UNIQUE, account: acme, entry: first-NAME, partitions: 1}
nodes:
  - id: first-NAME
    module: python:pipestream_testing.modules:meeting
    config: {folder: FOLDER, parties: 2}
"""


@pytest.fixture(params=["sql", "consul"])
def graphs(request, settings, unique, tmp_path):
    """Two graphs on one datasource. A document passes when both graphs are at work on it at the same moment."""
    settings = settings.model_copy(update={"leases": request.param})
    made = []
    for name in ("one", "two"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(GRAPH.replace("UNIQUE", unique).replace("NAME", name).replace("FOLDER", str(tmp_path)))
        made.append(Pipeline(settings, file))
        made[-1].create_topics()
    yield made
    with closing(open_lease_store(settings)) as leases:
        leases.unregister([f"intake.{unique}"])


def test_both_drain_the_same_topic_at_the_same_moment_under_the_same_run_id(graphs, unique):
    topic = f"intake.{unique}"
    graphs[0].send(topic, ["a"])

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda graph: graph.drain(topic, "nightly"), graphs))

    assert [(report.status, report.records, report.dead_letters) for report in reports] == [("drained", 1, 0)] * 2
    with closing(open_lease_store(graphs[0].settings)) as leases:
        assert [found.lane for found in leases.assignments(topic)] == [f"{unique}-one", f"{unique}-two"]
    for graph in graphs:
        graph.check_ledger_tiles(topic)
