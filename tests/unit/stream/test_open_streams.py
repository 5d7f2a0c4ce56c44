"""Which slots the streams of a process are, whatever drains them."""

from __future__ import annotations

import pytest

from pipestream.deployment.versions import ActiveGraph
from pipestream.graph.load import load_graph
from pipestream.graph.proto import built
from pipestream.leases.none import NoLeaseStore
from pipestream.leases.store import TopicMode
from pipestream.settings import Settings
from pipestream.sidecar.streams import SidecarStreams
from pipestream.stream.watch import Wanted, find_wanted
from pipestream_spark.stream import SparkStreams

GRAPH = """
graph: {name}
cluster: main
datasources:
  - {{id: {name}, account: acme, entry: first}}
nodes:
  - {{id: first, module: "python:pipestream_testing.steps:pass_on"}}
"""


class Graphs:
    """The applied graphs ``g`` and ``h``."""

    def __init__(self, folder):
        self.found = {}
        for name in ("g", "h"):
            file = folder / f"{name}.yaml"
            file.write_text(GRAPH.format(name=name))
            self.found[name] = ActiveGraph(1, built(load_graph(file)))

    def read(self):
        return self.found


class Session:
    def find(self):
        pass

    def find_most_windows(self):
        return 0


@pytest.fixture
def graphs(tmp_path):
    return Graphs(tmp_path)


def open_streams(kind, leases, graphs, graph_ids=None):
    settings = Settings(leases="none")
    if kind == "sidecar":
        streams = SidecarStreams(settings, leases, graphs, None, run_id="r")
    else:
        streams = SparkStreams(settings, leases, graphs, None, Session(), "r", graph_ids, None)
    streams._broker = type("NoTopics", (), {"existing": dict})
    return streams


@pytest.mark.parametrize("kind", ["sidecar", "spark"])
def test_without_leases_every_topic_is_to_be_streamed(kind, graphs):
    leases = NoLeaseStore()

    wanted = open_streams(kind, leases, graphs).find_wanted()

    assert {spec.topic for spec in wanted.values()} == {"intake.g", "intake.h"}
    for spec in wanted.values():
        assert leases.desired(spec.topic).mode is TopicMode.STREAMING
        assert isinstance(find_wanted(spec.topic, 0, spec.graph, leases.desired(spec.topic)), Wanted)


def test_only_the_topics_of_the_named_graphs_are_wanted(graphs):
    wanted = open_streams("spark", NoLeaseStore(), graphs, ["h"]).find_wanted()

    assert {spec.topic for spec in wanted.values()} == {"intake.h"}
