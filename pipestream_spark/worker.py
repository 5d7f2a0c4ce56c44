"""What runs in the Python worker of an executor: the tasks that a runner has sent, one after the other."""

from __future__ import annotations

import json
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.errors import SettingsInvalid
from pipestream.settings import Settings, load_settings
from pipestream.telemetry.carried import add_counts, counts_since, take_counts
from pipestream_spark.answers import answer_batches

PIECE = "task bigint, place bigint, piece binary"
"""The columns between the two stages of a drain in sub-ranges."""
_PIECE = pa.schema([("task", pa.int64()), ("place", pa.int64()), ("piece", pa.binary())])
# Before all pieces of a task: what the workers of its first stage have counted.
_COUNTS_PLACE = -1


@dataclass(frozen=True, slots=True)
class Orders:
    """The tasks of a query, and in which environment they run. It travels to every worker, so it holds no secret."""

    shared: str
    """What the tasks have in common, as JSON. Above all the graph, which is many times as large as the rest."""
    own: tuple[str, ...]
    """What each task has of its own, as JSON."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Set while a task runs, for a worker that does not have the environment of the driver."""
    store_uri: str = ""
    """The object store of the run. A worker with another one would not find the documents. Empty: not checked."""

    @classmethod
    def of(cls, tasks: Sequence[RangeTask], variables: Mapping[str, str] | None = None, store_uri: str = "") -> Orders:
        fields = [task.to_fields() for task in tasks]
        shared = {name: value for name, value in fields[0].items() if all(each[name] == value for each in fields)}
        own = (json.dumps({name: each[name] for name in each.keys() - shared.keys()}) for each in fields)
        return cls(json.dumps(shared), tuple(own), variables or {}, store_uri)

    def task(self, number: int) -> RangeTask:
        return RangeTask.from_fields(json.loads(self.shared) | json.loads(self.own[number]))


@dataclass(frozen=True, slots=True)
class SubRangeOrders:
    """The tasks of a query in two stages, and which slice of the first stage processes which sub-range."""

    orders: Orders
    places: tuple[tuple[int, int], ...]
    """Of each slice: the number of its task, and of its sub-range in that task."""

    @classmethod
    def of(cls, tasks: Sequence[RangeTask], orders: Orders) -> SubRangeOrders:
        """
        :param orders: of the same tasks.
        """
        places = [(number, part) for number, task in enumerate(tasks) for part in range(len(task.sub_ranges))]
        return cls(orders, tuple(places))


def process_numbered(orders: SubRangeOrders, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process the sub-ranges whose numbers a slice has; return their pieces. It is the first of two stages."""
    from pipestream.drain.pieces import place_of

    for batch in batches:
        for number in batch.column("id").to_pylist():
            task_number, sub_range = orders.places[number]
            before = take_counts()
            with _variables(orders.orders.variables):
                for place, piece in enumerate(_process_here(orders.orders, task_number, sub_range)):
                    yield _piece_batch(task_number, place_of(sub_range, place), piece)
            yield _piece_batch(task_number, _COUNTS_PLACE, counts_since(before).encode())


def commit_numbered(orders: SubRangeOrders, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Commit the pieces of the tasks that a slice has, in order. It is the second of two stages.

    Spark may give a slice the pieces of several tasks, one task after the other.
    """
    rows = (row for batch in batches for row in zip(*(batch.column(name) for name in _PIECE.names), strict=True))
    of_tasks = ((task.as_py(), place.as_py(), piece) for task, place, piece in rows)
    for number, pieces in groupby(of_tasks, key=itemgetter(0)):
        task = orders.orders.task(number)
        before = take_counts()
        with _variables(orders.orders.variables):
            outcomes = _commit_here(task, _without_counts(pieces), orders.orders.store_uri)
        yield from answer_batches(outcomes, counts_since(before))


def _without_counts(rows: Iterable[tuple[int, int, pa.Scalar]]) -> Iterator[bytes]:
    """Yield the pieces of a task. What its first stage counted is counted here, and goes to the driver from here."""
    for _, place, piece in rows:
        if place == _COUNTS_PLACE:
            add_counts(piece.as_py().decode())
        else:
            yield piece.as_py()


def _process_here(orders: Orders, task_number: int, sub_range: int) -> Iterator[bytes]:
    from pipestream.drain.sub_ranges import process_sub_range, refuse_sub_range

    task = orders.task(task_number)
    try:
        settings = _settings_here(orders.store_uri)
    except SettingsInvalid as error:
        yield refuse_sub_range(task, sub_range, error)
    else:
        yield from process_sub_range(task, sub_range, settings)


def _commit_here(task: RangeTask, pieces: Iterator[bytes], store_uri: str) -> list[RangeOutcome]:
    from pipestream.drain.sub_ranges import commit_sub_ranges

    try:
        return commit_sub_ranges(task, pieces, _settings_here(store_uri))
    except SettingsInvalid as error:
        return task.refuse(error)


def _piece_batch(task_number: int, place: int, piece: bytes) -> pa.RecordBatch:
    """Return a batch of one row. Built of buffers, because ``pa.array`` imports pandas, which takes half a second."""
    ends = struct.pack("=ii", 0, len(piece))
    data = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(piece)])
    return pa.RecordBatch.from_arrays([_integer(task_number), _integer(place), data], schema=_PIECE)


def _integer(value: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(struct.pack("=q", value))])


def drain_numbered(orders: Orders, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the tasks whose numbers a slice has."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            before = take_counts()
            with _variables(orders.variables):
                outcomes = _drain_here(orders.task(number), orders.store_uri)
            yield from answer_batches(outcomes, counts_since(before))


def _drain_here(task: RangeTask, store_uri: str) -> list[RangeOutcome]:
    from pipestream.drain.window import drain_task

    try:
        settings = _settings_here(store_uri)
    except SettingsInvalid as error:
        return task.refuse(error)  # as an answer, because Spark would retry a task that raises
    return drain_task(task, settings)


def _settings_here(store_uri: str) -> Settings:
    """Return the settings of this worker.

    :raises SettingsInvalid: they cannot be used, or are not those of the drain.
    """
    try:
        settings = load_settings()
        if store_uri and settings.store_uri != store_uri:
            raise SettingsInvalid(
                f"store_uri is {settings.store_uri}, and the drain was started with {store_uri}; give the Spark "
                f"workers the settings of the drain"
            )
    except SettingsInvalid as error:
        raise SettingsInvalid(f"on the worker {platform.node()}: {error}") from error
    return settings


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the block. A worker may be used again for the task of another run."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
