"""The product's own range task on the model broker: the graph that it drains, and documents that heal when replayed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import Any, Self

from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.plan_tasks import cut_sub_ranges
from pipestream.drain.range_task import ordered_ids, unordered_ids
from pipestream.engine.dead_letter_record import REPLAYS
from pipestream.errors import ModuleFailed
from pipestream.graph.model import Datasource, Graph, Node, NodeType
from pipestream.graph.proto import to_binary
from pipestream.ids import derive_stream_id, record_origin
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.modules.declare import declare_module
from pipestream.modules.module import ModuleContext
from pipestream.objects.ranges import ByteRange
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.broker import ModelBroker
from pipestream_testing.made import make_task

TOPIC, DEAD, OUT = "intake.a", "dlq.intake.a", "pipestream.main.happy-end"
GRAPH = Graph(
    "g",
    "main",
    (
        Node("n", "main", module="python:pipestream_testing.model_drain:fail_until_healed"),
        Node("happy-end", "main", node_type=NodeType.SINK),
    ),
    datasources=(Datasource("a", "acme", "n"),),
)
IN_ORDER = replace(GRAPH, nodes=(replace(GRAPH.nodes[0], ordering="timestamp"), *GRAPH.nodes[1:]))
"""Another version of the graph: its node wants the records in order of time."""
BACKFILLS = ("b1", "b2")
LIVE = "live"


def make_document(doc_id: str, heals_after: int) -> OutputRecord:
    """Return the record of a document that fails until it has been replayed so often."""
    stream = PipeStream(document=PipeDoc(doc_id=doc_id))
    stream.document.search_metadata.title = str(heals_after)
    return OutputRecord(TOPIC, doc_id.encode(), stream.SerializeToString(deterministic=True))


def heals_after(record: InputRecord) -> int:
    """Return how often a record's document must be replayed before it passes."""
    return int(PipeStream.FromString(record.value or b"").document.search_metadata.title)


def is_poison(record: InputRecord) -> bool:
    """Tell whether a record fails, as often as it has been replayed by now."""
    return int(header(record.headers, REPLAYS) or 0) < heals_after(record)


@dataclass(slots=True)
class Origins:
    """Finds the input record that a stream was made of, by the id that follows from its place."""

    broker: ModelBroker
    _known: dict[str, tuple[str, InputRecord]] = field(default_factory=dict)

    def find(self, stream_id: str) -> tuple[str, InputRecord]:
        """Return whose runs made the stream, a backfill's or the live ones, and of which record."""
        if stream_id not in self._known:
            topic_id = self.broker.identify(TOPIC).topic_id
            for record in self.broker.all_records(TOPIC):
                origin = record_origin(topic_id, TOPIC, record.partition, record.offset)
                for of in (LIVE, *BACKFILLS):
                    lane = GRAPH.graph_id if of == LIVE else f"{GRAPH.graph_id}@{of}"
                    self._known[derive_stream_id(lane, origin)] = of, record
        return self._known[stream_id]


_origins: list[Origins] = []
_calls = count()


def use_broker(broker: ModelBroker) -> None:
    """Say on which broker the module of the graph finds its records. Its processes are threads, so one is enough."""
    _origins[:] = [Origins(broker)]


@declare_module(is_concurrent=True)
def fail_until_healed(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Refuse a document that has not been replayed often enough. Only its record says how often it was.

    Like a module that asks a model or writes down the time, it never answers the same twice.
    """
    _, record = _origins[0].find(context.stream_id)
    if is_poison(record):
        raise ModuleFailed("this document is poison")
    document.search_metadata.body = f"answer {next(_calls)}"
    return document


def drain_without_ledger(
    broker: ModelBroker,
    settings: Settings,
    *,
    run_id: str,
    budget: int,
    sub_range_offsets: int = 0,
    concurrency: int = 0,
    is_ordered: bool = False,
) -> None:
    """Drain up to ``budget`` offsets of each partition, planned by nothing but what the broker says.

    :param sub_range_offsets: process so many at a time, and then commit all; 0: chunk by chunk.
    :param concurrency: of the node.
    :param is_ordered: drain all partitions together, in one task.
    """
    node, *others = GRAPH.nodes
    graph = replace(GRAPH, nodes=(replace(node, concurrency=concurrency), *others))
    runner = LocalRunner(settings, broker, at_once=1)
    group, identity = "without-ledger", broker.identify(TOPIC)

    def run(offsets: Sequence[tuple[int, int, int]], transactional_ids: tuple[str, ...]) -> None:
        task = make_task(
            TOPIC,
            "n",
            topic_id=identity.topic_id,
            offsets=tuple(offsets),
            group=group,
            run_id=run_id,
            datasource_id="a",
            transactional_ids=transactional_ids,
            graph=b64encode(to_binary(graph)).decode(),
        )
        if sub_range_offsets:
            task = replace(task, sub_ranges=cut_sub_ranges(*task.offsets[0][1:], sub_range_offsets))
        list(runner([task]))

    waiting = []
    for partition, marks in broker.watermarks(TOPIC, identity.partitions).items():
        done = broker.committed(group, TOPIC, [partition]).get(partition)
        start = done.offset if done else marks.low
        if start < marks.high:
            waiting.append((partition, start, min(marks.high, start + budget)))
            if not is_ordered:
                run(waiting[-1:], unordered_ids(group, TOPIC, partition))
    if is_ordered and waiting:
        run(waiting, ordered_ids(group, TOPIC, identity.partitions))


@dataclass(frozen=True, slots=True)
class SteppingStore:
    """An object store in which other processes may come in between, and its own process may die, at every call."""

    store: ObjectStore
    step: Callable[[], None]

    def __enter__(self) -> Self:
        self.store.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.__exit__(kind, error, trace)

    def get_many(self, keys: Sequence[str], most_bytes: int | None = None, other_bytes: Sequence[int] = ()) -> Any:
        self.step()
        return self.store.get_many(keys, most_bytes, other_bytes)

    def get_ranges(self, wanted: Sequence[ByteRange]) -> Any:
        if wanted:
            self.step()
        return self.store.get_ranges(wanted)

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        if items:
            self.step()
        self.store.put_many(items)

    def put_once(self, items: Sequence[tuple[str, bytes]]) -> list[str]:
        if items:
            self.step()
        return self.store.put_once(items)

    def delete(self, key: str) -> None:
        self.step()
        self.store.delete(key)
