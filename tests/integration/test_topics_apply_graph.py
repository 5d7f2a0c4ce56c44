"""Applying graphs: topics, registration and versions together, on real servers."""

from __future__ import annotations

import textwrap

import pytest
from confluent_kafka import Producer

from pipestream.deployment.apply import apply_graph, preview_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.errors import GraphInvalid
from pipestream.graph.load import check_graph_text
from pipestream.leases import open_lease_store
from pipestream.ledger import Ledger
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import DEAD_LETTER_BYTES, DEAD_LETTER_HEADERS_BYTES
from pipestream_testing.made import make_entry
from pipestream_testing.modules import GrpcModuleServer

pytestmark = pytest.mark.stack


class Bench:
    """One installation: a graph is applied to it by its text."""

    def __init__(self, settings, unique):
        self.settings = settings
        self.unique = unique
        self.admin = TopicAdmin(settings)
        self.leases = open_lease_store(settings)
        self.versions = GraphVersions(settings)

    def graph(self, text, graph_id="sample", cluster=""):
        head = f"graph: {graph_id}\ncluster: {cluster or self.unique}\n"
        return check_graph_text((head + textwrap.dedent(text)).encode(), "graph.yaml").require()

    def apply(self, text, graph_id="sample", cluster="", **options):
        return apply_graph(
            self.graph(text, graph_id, cluster), self.settings, self.leases, self.versions, applied_by="ann", **options
        )

    def topics(self):
        return {name for name in self.admin.existing() if f".{self.unique}" in name or f"{self.unique}-files" in name}

    def produce(self, topic):
        producer = Producer({"bootstrap.servers": self.settings.kafka_bootstrap})
        producer.produce(topic, b"x")
        assert producer.flush(120) == 0


@pytest.fixture
def bench(settings, unique):
    bench = Bench(settings, unique)
    yield bench
    bench.versions.close()
    bench.leases.close()


def two_nodes(unique, **extra):
    more = "".join(f"    {key}: {value}\n" for key, value in extra.items())
    return (
        f"datasources:\n  - {{id: {unique}-files, account: demo, entry: a}}\n"
        f"nodes:\n  - {{id: a, module: 'python:json:loads'}}\n  - id: b\n    module: python:json:loads\n{more}"
        "edges:\n  - {from: a, to: b}\n"
    )


def one_node(unique):
    return (
        f"datasources:\n  - {{id: {unique}-files, account: demo, entry: a}}\n"
        "nodes:\n  - {id: a, module: 'python:json:loads'}\n"
    )


def test_applying_makes_and_registers_the_topics_and_keeps_a_version(bench, unique):
    applied = bench.apply(two_nodes(unique))

    assert set(applied.created) == bench.topics() == {
        f"intake.{unique}-files",
        f"dlq.intake.{unique}-files",
        f"pipestream.{unique}.b",
        f"pipestream.{unique}.happy-end",
        f"dlq.{unique}.a",
        f"dlq.{unique}.b",
    }  # fmt: skip
    assert bench.leases.topics() == [f"intake.{unique}-files", f"pipestream.{unique}.b"]
    assert (applied.version.version, applied.version.applied_by) == (1, "ann")


def test_applying_gives_dead_letters_room_for_the_largest_record_of_the_graphs_topics(bench, unique):
    bench.apply(one_node(unique))
    intake, dead = f"intake.{unique}-files", f"dlq.intake.{unique}-files"
    made_with = bench.admin.configs([dead])[dead].max_message_bytes
    bench.admin.set_max_message_bytes({intake: 10_000_000, dead: 1_000_000})

    planned = preview_graph(bench.graph(one_node(unique)), bench.settings, bench.versions).max_message_bytes
    bench.apply(one_node(unique))

    assert made_with == DEAD_LETTER_BYTES
    assert (
        bench.admin.configs([dead])[dead].max_message_bytes == planned[dead] == 10_000_000 + DEAD_LETTER_HEADERS_BYTES
    )
    assert bench.admin.configs([intake])[intake].max_message_bytes == 10_000_000


def test_applying_again_changes_nothing(bench, unique):
    first = bench.apply(two_nodes(unique))
    again = bench.apply(two_nodes(unique))

    assert (again.created, again.retired) == ((), ())
    assert set(again.kept) == set(first.created)
    assert again.version == first.version


def test_a_preview_shows_the_difference_and_changes_nothing(bench, unique):
    bench.apply(two_nodes(unique))
    before = bench.topics()
    changes = preview_graph(bench.graph(one_node(unique)), bench.settings, bench.versions)

    assert changes.retire == (f"dlq.{unique}.b", f"pipestream.{unique}.b")
    assert changes.create == ()
    assert bench.topics() == before
    assert len(bench.versions.history("sample")) == 1


def test_an_invalid_graph_changes_nothing(bench, unique):
    graph = bench.graph(two_nodes(unique).replace("json:loads", "no_such_package:run"))

    with pytest.raises(GraphInvalid, match="cannot import no_such_package"):
        apply_graph(graph, bench.settings, bench.leases, bench.versions, applied_by="ann")
    assert bench.topics() == set()
    assert bench.leases.topics() == []
    assert bench.versions.graph_ids() == []


def test_a_graph_in_design_is_not_applied(bench, unique):
    with pytest.raises(GraphInvalid, match="a graph in design is not applied"):
        bench.apply("mode: design\n" + two_nodes(unique))
    assert bench.topics() == set()


def test_a_graph_that_takes_the_node_of_another_is_refused(bench, unique):
    bench.apply(two_nodes(unique))

    with pytest.raises(GraphInvalid, match=r"node a of cluster .* is already defined in graph sample"):
        bench.apply(one_node(unique), graph_id="second")


def test_a_datasource_of_another_account_in_an_active_graph_is_refused(bench, unique):
    bench.apply(one_node(unique))
    theirs = one_node(unique).replace("account: demo", "account: theirs").replace("id: a,", "id: z,")

    with pytest.raises(GraphInvalid, match=rf"datasource {unique}-files has theirs here and demo in graph sample"):
        bench.apply(theirs.replace("entry: a", "entry: z"), "other")


def test_an_empty_topic_that_is_no_longer_needed_goes(bench, unique):
    bench.apply(two_nodes(unique))
    applied = bench.apply(one_node(unique))

    assert applied.retired == (f"dlq.{unique}.b", f"pipestream.{unique}.b")
    assert not bench.topics() & set(applied.retired)
    assert bench.leases.topics() == [f"intake.{unique}-files"]
    assert applied.version.version == 2


def test_a_topic_with_unread_records_stays_until_it_is_drained(bench, unique):
    bench.apply(two_nodes(unique))
    bench.produce(f"pipestream.{unique}.b")

    applied = bench.apply(one_node(unique), is_drained=lambda _: False)
    assert applied.unread == (f"pipestream.{unique}.b",)
    assert f"pipestream.{unique}.b" in bench.topics()
    assert f"pipestream.{unique}.b" in bench.leases.topics()

    later = bench.apply(one_node(unique), is_drained=lambda _: True)
    assert later.retired == (f"pipestream.{unique}.b",)
    assert f"pipestream.{unique}.b" not in bench.topics()
    assert bench.versions.leftovers("sample") == []


def test_force_retires_what_is_unread(bench, unique):
    bench.apply(two_nodes(unique))
    bench.produce(f"dlq.{unique}.b")

    assert f"dlq.{unique}.b" in bench.apply(one_node(unique), force=True).retired
    assert f"dlq.{unique}.b" not in bench.topics()


def test_what_another_graph_needs_stays(bench, unique):
    bench.apply(two_nodes(unique))
    bench.apply(one_node(unique).replace("id: a", "id: c").replace("entry: a", "entry: c"), graph_id="second")
    applied = bench.apply("nodes:\n  - {id: a, type: connector}\n")

    assert f"intake.{unique}-files" not in applied.retired
    assert f"intake.{unique}-files" in bench.topics()


def test_partitions_grow_and_never_shrink(bench, unique):
    bench.apply(two_nodes(unique, partitions=2))
    grown = bench.apply(two_nodes(unique, partitions=4, retention_hours=2))
    shrunk = bench.apply(two_nodes(unique, partitions=1))

    assert grown.grown == (f"pipestream.{unique}.b",)
    assert len(bench.admin.identify(f"pipestream.{unique}.b").partitions) == 4
    assert bench.admin.configs([f"pipestream.{unique}.b"])[f"pipestream.{unique}.b"].retention_ms == 7_200_000
    assert "has 4 partitions and the graph asks for 1" in shrunk.warnings[0]


def test_both_sides_of_a_bridge_know_its_topic(bench, unique):
    sender = bench.apply(
        f"nodes:\n  - {{id: a, type: connector}}\nedges:\n  - {{from: a, to: door, cluster: {unique}-far}}\n"
    )
    far = check_graph_text(
        f"graph: far\ncluster: {unique}-far\nnodes:\n"
        "  - {id: door, module: 'python:json:loads', visibility: public, partitions: 5}\n".encode(),
        "far.yaml",
    ).require()
    receiver = apply_graph(far, bench.settings, bench.leases, bench.versions, applied_by="bob")

    bridge = f"bridge.{unique}-far.door"
    assert bridge in sender.created
    assert receiver.grown == (bridge,)
    assert bridge in bench.leases.topics()
    assert bridge not in bench.apply("nodes:\n  - {id: a, type: connector}\n", force=True).retired


def with_module(unique, spec, pages):
    return (
        f"datasources:\n  - {{id: {unique}-files, account: demo, entry: a}}\n"
        f"nodes:\n  - {{id: a, module: '{spec}', config: {{pages: {pages}}}}}\n"
    )


def serve():
    schema = '{"properties": {"pages": {"minimum": 1}}}'
    return GrpcModuleServer(lambda request, _: GrpcModuleServer.answer(request.document), schema=schema)


def test_a_config_that_its_grpc_module_refuses_is_not_applied(bench, unique, tmp_path):
    with serve() as server:
        text = f"graph: sample\ncluster: {unique}\n" + with_module(unique, server.spec, 0)
        file = tmp_path / "graph.yaml"
        file.write_text(text)
        with pytest.raises(GraphInvalid, match=r"graph.yaml:6: nodes\[0\].config.pages: .*less than the minimum of 1"):
            bench.apply(with_module(unique, server.spec, 0), file=file)
        assert bench.topics() == set()

        applied = bench.apply(with_module(unique, server.spec, 1))

    assert applied.warnings == ()


def test_a_grpc_module_that_is_down_is_a_warning_unless_it_is_required(bench, unique):
    with serve() as server:
        pass
    text = with_module(unique, server.spec, 0)
    bench.settings = bench.settings.model_copy(update={"module_check": "require"})
    with pytest.raises(GraphInvalid, match="did not answer, so its config was not checked"):
        bench.apply(text)
    assert bench.topics() == set()

    bench.settings = bench.settings.model_copy(update={"module_check": "warn"})
    (warning,) = bench.apply(text).warnings
    bench.settings = bench.settings.model_copy(update={"module_check": "off"})

    assert "did not answer" in warning
    assert bench.apply(text).warnings == ()


def drain(bench, unique, graph_id="sample"):
    """Leave in the ledger what a drain of the intake topic leaves there."""
    topic = f"intake.{unique}-files"
    identity = bench.admin.identify(topic)
    entry = make_entry(0, 100, topic=topic, topic_id=identity.topic_id, lane=graph_id, graph_id=graph_id)
    Ledger(bench.settings).enter([entry])


def test_a_graph_that_has_drained_keeps_its_cluster(bench, unique):
    bench.apply(one_node(unique))
    drain(bench, unique)
    before = bench.topics()

    refused = (
        rf"cluster: it was {unique}, and graph sample has drained intake.{unique}-files there.*keep cluster: {unique}"
    )
    with pytest.raises(GraphInvalid, match=refused):
        preview_graph(bench.graph(one_node(unique), cluster=f"{unique}-b"), bench.settings, bench.versions)
    with pytest.raises(GraphInvalid, match=refused):
        bench.apply(one_node(unique), cluster=f"{unique}-b")
    bench.versions.delete("sample", deleted_by="ann")
    with pytest.raises(GraphInvalid, match=refused):
        bench.apply(one_node(unique), cluster=f"{unique}-b")

    assert bench.topics() == before
    bench.apply(one_node(unique))
    bench.apply(one_node(unique), graph_id="other", cluster=f"{unique}-b")


def test_a_graph_that_has_drained_nothing_may_change_its_cluster(bench, unique):
    bench.apply(one_node(unique))

    bench.apply(one_node(unique), cluster=f"{unique}-b")

    assert bench.versions.active("sample").cluster_id == f"{unique}-b"
