"""Run two versions of a graph on documents that were drained before, and list those that come out differently.

It has a lane of its own, which nothing is committed in: no record is published, no object stored, no offset or ledger
entry written, no lease taken. Both graphs get the same records. Modules of processing nodes really run, those of the
changed graph included; see ``route`` for what does not run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pipestream.comparison.asked_once import Answers
from pipestream.comparison.differences import Difference, find_difference
from pipestream.comparison.ranges import find_drained, latest, still_held
from pipestream.comparison.route import FAILED, Ending, Leaf, Route, follow_to_the_end
from pipestream.engine.intake import Arrival, Entrance, take_in
from pipestream.engine.services import open_services
from pipestream.errors import PipestreamError, RequestInvalid, TimeBudgetSpent
from pipestream.graph.flow import DrainedTopic, drained_topics
from pipestream.graph.proto import built
from pipestream.ids import record_origin
from pipestream.kafka.broker import Broker
from pipestream.kafka.scan import scan
from pipestream.ledger import Ledger
from pipestream.objects.store import open_store
from pipestream.topic_names import TopicKind
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.engine.process import Services
    from pipestream.graph.model import Graph
    from pipestream.kafka.records import InputRecord, OffsetRange
    from pipestream.objects.store import ObjectStore
    from pipestream.settings import Settings

MOST_DOCUMENTS: Final = 10_000
MODULES_RUN: Final = (
    "modules were called, those of the changed graph included; modules of ends and remote engines were not"
)
_LISTED: Final = 200
"""Documents that are listed. The counts are of all."""
_LANE: Final = "compare"
_LONGEST_PAUSE_S: Final = 0.2
"""Between two tries of a call. A comparison has little time, and what it leaves out can be compared later."""


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Which drained documents to compare."""

    topics: tuple[str, ...] = ()
    """Where their records are; the intake topics unless given."""
    most_documents: int = 100
    since: datetime | None = None
    """Of ranges that were recorded then or later."""
    until: datetime | None = None
    timeout_s: float | None = None
    """When to stop, with what was compared by then; None: when all is compared."""


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """A record whose documents come out differently."""

    doc_id: str
    topic: str
    partition: int
    offset: int
    difference: Difference


@dataclass(frozen=True, slots=True)
class EdgeCount:
    """How many documents took an edge; None where the graph does not have it."""

    edge: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class ChangedCondition:
    """An edge whose condition differs between the graphs, and what it decided. The same result can hide a change that
    no document put to the test."""

    edge: str
    reached: int
    """Documents that came to it, in the changed graph."""
    true_before: int
    true_after: int


@dataclass(slots=True)
class Comparison:
    """What two graphs make of the same records."""

    graph_id: str
    records: int = 0
    """Records that both graphs have processed."""
    drained: int = 0
    """Offsets that were drained in this time and are still held. The latest of them are compared."""
    different: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """How many records differ in their route, in a failure, in a document."""
    failed_before: int = 0
    """Documents that end as dead letters, or at the error-end."""
    failed_after: int = 0
    edges: list[EdgeCount] = field(default_factory=list)
    conditions: list[ChangedCondition] = field(default_factory=list)
    """Those that the change is about."""
    documents: list[ComparedDocument] = field(default_factory=list)
    """Those that differ, the first of them if there are many."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def compare_graphs(before: Graph, after: Graph, settings: Settings, request: CompareRequest) -> Comparison:
    """Return what differs between two versions of a graph on documents that were drained before.

    :raises RequestInvalid: the topics are not drained by both graphs, or nothing was drained yet.
    :raises GraphInvalid: a module cannot be found.
    :raises TransientError: a server or a module does not answer.
    """
    begun = time.monotonic()
    deadline = None if request.timeout_s is None else begun + request.timeout_s
    places, notes = _places(before, after, request.topics)
    held = _find_held(before.graph_id, list(places), settings, request)
    records = _read(held, settings, request)
    result = Comparison(before.graph_id, drained=sum(map(len, held)), notes=[MODULES_RUN, *notes])
    taken: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    decided: Counter[str] = Counter()
    try:
        for record, one, other in _run_both((before, after), places, records, settings, deadline):
            _add(result, record, one, other)
            taken[0].update(one.taken)
            taken[1].update(other.taken)
            decided.update(other.decided)
    except TimeBudgetSpent:
        result.notes.append(
            f"stopped after {request.timeout_s:g} s: {result.records} of {len(records)} records were compared"
        )
    result.edges = _edge_counts(before, after, taken)
    result.conditions = _changed_conditions(before, after, taken, decided)
    if result.drained > request.most_documents:
        result.notes.append(
            f"the latest {request.most_documents} of {result.drained} drained offsets; compare more for older documents"
        )
    if result.different > _LISTED:
        result.notes.append(f"{result.different} records differ, of which the first {_LISTED} are listed")
    result.seconds = round(time.monotonic() - begun, 3)
    return result


_Places = dict[str, tuple[DrainedTopic, DrainedTopic]]


def _places(before: Graph, after: Graph, topics: Sequence[str]) -> tuple[_Places, list[str]]:
    """Return where each topic enters each graph, and notes on topics that only one of them drains."""
    if before.graph_id != after.graph_id:
        raise RequestInvalid(f"{after.graph_id} is another graph than {before.graph_id}; compare versions of one graph")
    old, new = ({each.topic: each for each in drained_topics(graph)} for graph in (before, after))
    wanted = topics or [topic for topic, each in old.items() if each.kind is TopicKind.INTAKE]
    unknown = [topic for topic in wanted if topic not in old]
    if unknown:
        raise RequestInvalid(f"the applied graph does not drain {', '.join(unknown)}; it drains {', '.join(old)}")
    gone = [topic for topic in wanted if topic not in new]
    both = {topic: (old[topic], new[topic]) for topic in wanted if topic in new}
    if not both:
        raise RequestInvalid(f"the changed graph does not drain {', '.join(gone) or 'any intake topic'}")
    return both, [f"the changed graph no longer drains {topic}" for topic in gone]


def _find_held(graph_id: str, topics: Sequence[str], settings: Settings, request: CompareRequest) -> list[OffsetRange]:
    """Return what was drained of the topics and is still there.

    :raises RequestInvalid: nothing is.
    """
    drained = find_drained(Ledger(settings), graph_id, topics, request.since, request.until)
    held = still_held(settings, drained)
    if not held:
        why = "Kafka no longer keeps what was drained" if drained else "nothing was drained"
        raise RequestInvalid(f"there is nothing to compare: {why} of {', '.join(topics)} in this time")
    return held


def _read(held: Sequence[OffsetRange], settings: Settings, request: CompareRequest) -> list[InputRecord]:
    """Return the records to compare, in the order in which they were written."""
    records = list(scan(settings, latest(held, request.most_documents), committed=True))
    return sorted(records, key=lambda record: (record.timestamp_ms, record.topic, record.partition, record.offset))


def _run_both(
    graphs: tuple[Graph, Graph],
    places: _Places,
    records: Sequence[InputRecord],
    settings: Settings,
    deadline: float | None,
) -> Iterator[tuple[InputRecord, Route, Route]]:
    """Yield each record with its routes. One record at a time: few modules may be called from several threads."""
    # Nobody who follows the real documents may hear of these.
    silent = settings.model_copy(update={"gateway_url": "", "otlp_endpoint": ""})
    answers = Answers(*graphs)
    topic_ids = {topic: Broker(settings).identify(topic).topic_id for topic in places}
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings.store_uri, settings))
        sides = []
        for side, graph in enumerate(graphs):
            opened = open_services(built(graph), silent, _run_here(graph), store, module_wait_s=0.0)
            services = answers.watch(stack.enter_context(opened), ("before", "after")[side])
            sides.append(_Side(side, graph, services, silent, store))
        for record in records:
            answers.forget()
            arrival = Arrival(record, record_origin(topic_ids[record.topic], *_place(record)))
            one, other = (each.follow(arrival, places[record.topic], deadline) for each in sides)
            yield record, one, other


def _run_here(graph: Graph) -> list[str]:
    return [node.node_id for node in graph.nodes if not node.is_end and not node.engine]


def _place(record: InputRecord) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two graphs, ready to process."""

    number: int
    graph: Graph
    services: Services
    settings: Settings
    store: ObjectStore

    def follow(self, arrival: Arrival, places: tuple[DrainedTopic, DrainedTopic], deadline: float | None) -> Route:
        """Return the route of a record. One that cannot be taken in fails at its node, as in a drain."""
        place = places[self.number]
        lane = f"{self.graph.graph_id}@{_LANE}"
        entrance = Entrance(self.graph, place.node_id, lane, place.datasource_id, is_live=False)
        (stream,) = take_in([arrival], entrance, self.store)
        if isinstance(stream, PipestreamError):
            failed = Leaf((), Ending.DEAD_LETTER, place.node_id, str(stream), PipeDoc())
            return Route((failed,), Counter(), Counter())
        return follow_to_the_end(stream, self.graph, self.services, self.settings, _pause, deadline)


def _pause(seconds: float) -> None:
    time.sleep(min(seconds, _LONGEST_PAUSE_S))


def _add(result: Comparison, record: InputRecord, before: Route, after: Route) -> None:
    result.records += 1
    result.failed_before += _count_failed(before.leaves)
    result.failed_after += _count_failed(after.leaves)
    difference = find_difference(before, after)
    if difference is None:
        return
    result.different += 1
    result.kinds.update(difference.kinds)
    if len(result.documents) < _LISTED:
        doc_id = (record.key or b"").decode("utf-8", "replace")
        result.documents.append(ComparedDocument(doc_id, *_place(record), difference))


def _count_failed(leaves: Iterable[Leaf]) -> int:
    return sum(leaf.ending in FAILED for leaf in leaves)


def _edge_counts(before: Graph, after: Graph, taken: tuple[Counter[str], Counter[str]]) -> list[EdgeCount]:
    """Return the edges whose counts differ, or that only one of the graphs has."""
    old, new = ({edge.edge_id for edge in graph.edges} for graph in (before, after))
    found = []
    for edge in dict.fromkeys(edge.edge_id for graph in (before, after) for edge in graph.edges):
        counts = EdgeCount(edge, taken[0][edge] if edge in old else None, taken[1][edge] if edge in new else None)
        if counts.before != counts.after:
            found.append(counts)
    return found


def _changed_conditions(
    before: Graph, after: Graph, taken: tuple[Counter[str], Counter[str]], decided: Counter[str]
) -> list[ChangedCondition]:
    """Return the edges of both graphs whose conditions differ.

    :param decided: how many documents the conditions of each node of the changed graph decided on.
    """
    old = {edge.edge_id: edge for edge in before.edges}
    found = []
    for edge in after.edges:
        if edge.edge_id in old and old[edge.edge_id].condition != edge.condition:
            true_before, true_after = taken[0][edge.edge_id], taken[1][edge.edge_id]
            # A node without any condition decides nothing, and then all of its documents take the edge.
            reached = max(decided[edge.from_node_id], true_after)
            found.append(ChangedCondition(edge.edge_id, reached, true_before, true_after))
    return found
