from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pipestream.comparison.asked_once import Answers
from pipestream.comparison.differences import find_difference
from pipestream.comparison.ranges import latest
from pipestream.comparison.route import MAX_STEPS, Ending, follow_to_the_end
from pipestream.engine.graph_conditions import Conditions
from pipestream.engine.process import Services
from pipestream.errors import ModuleFailed
from pipestream.graph.model import Datasource, Edge, Graph, Node, NodeType, Transport
from pipestream.kafka.records import OffsetRange
from pipestream.modules.resolve import IdentityModule
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream

SETTINGS = Settings(max_attempts=2, retry_initial_ms=0)
NODES = (
    Node("triage", "main"),
    Node("parse", "main", module="python:x:parse"),
    Node("done", "main", node_type=NodeType.SINK, module="python:x:write_to_an_index"),
)
EDGES = (
    Edge("reports", "triage", "parse", condition='doc.search_metadata.document_type == "report"'),
    Edge("parsed", "parse", "done", transport=Transport.GRPC),
)
GRAPH = Graph("g", "main", NODES, EDGES, datasources=(Datasource("ds", "acme", "triage"),), happy_end="done")


class Parser:
    """Counts its calls; adds its count, its configuration and the key of the call to the document."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def process(self, document, context):
        self.keys.append(context.idempotency_key)
        if document.search_metadata.title == "bad":
            raise ModuleFailed("it is bad")
        document.search_metadata.metadata["calls"] = str(len(self.keys))
        document.search_metadata.metadata["level"] = str(context.config.get("level", ""))
        return [document]

    def close(self) -> None:
        pass


def run_both(before: Graph, after: Graph, *documents: PipeDoc, parser: Parser | None = None):
    parser = parser or Parser()
    answers = Answers(before, after)
    found = []
    for document in documents:
        answers.forget()
        routes = []
        for side, graph in (("before", before), ("after", after)):
            services = Services(
                conditions=Conditions(graph, "cel-expr"),
                module_of=lambda node: parser if node.module else IdentityModule(),
                engine_of=lambda _: None,
                cel_engine="cel-expr",
                module_timeout_s=1,
                graph_hash="",
            )
            stream = PipeStream(stream_id="s", current_node_id="triage")
            stream.document.CopyFrom(document)
            watched = answers.watch(services, side)
            routes.append(follow_to_the_end(stream, graph, watched, SETTINGS, lambda _: None))
        found.append(tuple(routes))
    return found


def document(kind: str = "report", title: str = "t") -> PipeDoc:
    made = PipeDoc(doc_id="d")
    made.search_metadata.document_type = kind
    made.search_metadata.title = title
    return made


def changed(*, condition: str | None = None, node: Node | None = None, **graph) -> Graph:
    edges = EDGES if condition is None else (replace(EDGES[0], condition=condition), EDGES[1])
    nodes = tuple(node if node and each.node_id == node.node_id else each for each in NODES)
    return replace(GRAPH, nodes=nodes, edges=edges, **graph)


def test_edges_by_kafka_are_followed_and_the_module_of_an_end_is_not_called():
    parser = Parser()
    ((route, _),) = run_both(GRAPH, GRAPH, document(), parser=parser)

    assert [(leaf.edges, leaf.ending, leaf.node_id) for leaf in route.leaves] == [
        (("reports", "parsed"), Ending.END, "done")
    ]
    assert route.taken == Counter(reports=1, parsed=1)
    assert route.decided["triage"] == 1, "its conditions decided on the document"
    assert len(parser.keys) == 1


def test_an_unchanged_graph_makes_no_difference_though_a_module_answers_differently_each_time():
    ((one, other),) = run_both(GRAPH, GRAPH, document())

    assert find_difference(one, other) is None


def test_a_changed_condition_shows_the_edges_before_and_after():
    after = changed(condition='doc.search_metadata.document_type == "letter"')
    ((one, other),) = run_both(GRAPH, after, document())

    found = find_difference(one, other)
    assert found is not None
    assert found.kinds[0] == "route"
    assert [(leaf.edges, leaf.ending) for leaf in found.before] == [(("reports", "parsed"), "end")]
    assert [(leaf.edges, leaf.ending) for leaf in found.after] == [((), "happy end")]


def test_a_changed_configuration_shows_the_fields_that_come_out_differently():
    parser = Parser()
    after = changed(node=replace(NODES[1], config={"level": 2}))
    ((one, other),) = run_both(GRAPH, after, document(), parser=parser)

    found = find_difference(one, other)
    assert found is not None
    assert found.kinds == ("document",)
    assert ("search_metadata.metadata.level", "", "2") in [(f.field, f.before, f.after) for f in found.fields]


def test_a_changed_node_is_called_under_a_key_of_its_own():
    parser = Parser()
    run_both(GRAPH, changed(node=replace(NODES[1], config={"level": 2})), document(), parser=parser)

    assert len(set(parser.keys)) == 2


def test_a_document_that_fails_only_in_the_changed_graph_is_a_failure():
    after = changed(condition="true")
    ((one, other),) = run_both(GRAPH, after, document("letter", title="bad"))

    found = find_difference(one, other)
    assert found is not None
    assert found.kinds == ("route", "failure")
    assert (found.after[0].ending, found.after[0].node, found.after[0].error) == ("dead letter", "parse", "it is bad")
    assert found.fields == ()


def test_a_failure_of_an_unchanged_node_is_not_asked_for_again():
    parser = Parser()
    ((one, other),) = run_both(GRAPH, GRAPH, document(title="bad"), parser=parser)

    assert find_difference(one, other) is None
    assert len(parser.keys) == 1


def test_a_graph_that_branches_without_end_is_followed_only_so_far():
    loop = (Edge("a", "triage", "triage"), Edge("b", "triage", "triage"))
    ((route, _),) = run_both(*[replace(GRAPH, edges=loop, max_hops=50)] * 2, document())

    assert Ending.CUT in {leaf.ending for leaf in route.leaves}
    assert route.taken.total() == 2 * MAX_STEPS


def test_the_latest_offsets_are_taken_and_short_partitions_leave_room_for_long_ones():
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 1000), OffsetRange("t", 2, 50, 1000)]

    found = latest(ranges, 100)

    assert [(each.partition, each.start, each.end) for each in found] == [(0, 0, 10), (1, 955, 1000), (2, 955, 1000)]
    assert sum(map(len, latest(ranges, 2))) == 2
