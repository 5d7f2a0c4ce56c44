from __future__ import annotations

from collections import Counter

from pipestream.engine.decisions import ConditionCounts, count_conditions
from pipestream.engine.follow import follow
from pipestream.engine.graph_conditions import Conditions
from pipestream.engine.process import Services
from pipestream.graph.model import Edge, Graph, Node, NodeType, Transport
from pipestream.ledger.entries import Tally
from pipestream.ledger.tables import entry_from_row, entry_rows
from pipestream.modules.resolve import IdentityModule
from pipestream.settings import Settings
from pipestream.views.numbers import Drained, edge_numbers
from pipestream.wire import PipeStream
from pipestream_testing.made import make_entry

REPORT = 'doc.search_metadata.document_type == "report"'
FAILS = 'doc.search_metadata.metadata["lang"] == "en"'
NODES = (Node("triage", "main"), Node("parse", "main"), Node("end", "main", node_type=NodeType.SINK))
EDGES = (
    Edge("reports", "triage", "parse", condition=REPORT, transport=Transport.GRPC),
    Edge("others", "triage", "end", condition=f"!({REPORT})"),
    Edge("copies", "triage", "end", condition='doc.search_metadata.title == "copy"'),
    Edge("english", "parse", "end", condition=FAILS),
)
GRAPH = Graph("g", "main", NODES, EDGES, happy_end="end")
SERVICES = Services(
    conditions=Conditions(GRAPH, "cel-expr"),
    module_of=lambda _: IdentityModule(),
    engine_of=lambda _: None,
    cel_engine="cel-expr",
    module_timeout_s=1,
    graph_hash="",
)


def decide(kind: str, title: str = "", **metadata: str) -> list[str]:
    stream = PipeStream(stream_id="s", current_node_id="triage")
    stream.document.search_metadata.document_type = kind
    stream.document.search_metadata.title = title
    stream.document.search_metadata.metadata.update(metadata)
    found: list[str] = []
    follow(stream, GRAPH, SERVICES, Settings(), decisions=found)
    return found


def counts(*decided: list[str]) -> dict[str, tuple[int, int, int] | None]:
    total = Counter(name for each in decided for name in each)
    found = {edge.edge_id: count_conditions(edge, total) for edge in EDGES}
    return {name: each and (each.true, each.false, each.failed) for name, each in found.items()}


def test_each_condition_is_counted_true_or_false_once_per_document_though_several_edges_match():
    found = counts(decide("letter"), decide("letter", "copy"), decide("report", lang="en"), decide("report", lang="de"))

    assert found == {"reports": (2, 2, 0), "others": (2, 2, 0), "copies": (1, 3, 0), "english": (1, 1, 0)}


def test_a_condition_that_fails_is_counted_where_it_fails():
    found = counts(decide("report"))

    assert found["reports"] == (1, 0, 0)
    assert found["english"] == (0, 0, 1)


def test_a_condition_that_nothing_reached_has_no_counts():
    assert counts(decide("letter"))["english"] is None
    assert count_conditions(Edge("e", "triage", "end"), Counter({"routed triage": 5})) is None


def test_the_ledger_keeps_decisions_apart_from_documents():
    tally = Tally(3, {"others": 2}, 0, {"routed triage": 3, "true others": 2}) + Tally(1, {}, 1, {"failed english": 1})

    (row,) = entry_rows([make_entry(0, 4, tally=tally)]).to_pylist()
    kept = entry_from_row(row).tally

    assert kept is not None
    assert kept.documents_out == {"others": 2}
    assert kept.decisions == {"routed triage": 3, "true others": 2, "failed english": 1}


def test_an_entry_of_an_earlier_version_has_no_decisions():
    (row,) = entry_rows([make_entry(0, 4, tally=Tally(4, {"others": 4}, 0))]).to_pylist()

    assert entry_from_row(row).tally == Tally(4, {"others": 4}, 0)


def test_the_numbers_of_an_edge_show_how_its_condition_was_decided():
    drained = Drained({}, Counter(others=2), Counter({"routed triage": 3, "true others": 2, "true reports": 1}))

    found = {each.id: (each.taken, each.not_taken, each.failed) for each in edge_numbers(GRAPH, drained)}

    assert found["others"] == (2, 1, 0)
    assert found["reports"] == (1, 2, 0), "an edge inside a task is counted by its condition"
    assert found["copies"] == (0, 3, 0), "a dead edge"
    assert found["english"] == (0, None, None)
    assert ConditionCounts(2, 1, 0) == count_conditions(EDGES[1], drained.decisions)
