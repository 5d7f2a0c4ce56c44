"""What differs between two routes of one record. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.json_format import MessageToDict

from pipestream.comparison.route import FAILED
from pipestream.documents.blobs import blobs_of
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.comparison.route import Leaf, Route

MOST_FIELDS: Final = 20
"""Fields that are listed for one document."""
_MOST_TEXT = 300
_MOST_LEAVES = 20
_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ShownLeaf:
    """Where a document ends."""

    edges: tuple[str, ...]
    ending: str
    node: str
    error: str


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field of a document that comes out differently; None where it is absent."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs for one record."""

    kinds: tuple[str, ...]
    """``route``, ``failure`` and ``document``, those that apply."""
    before: tuple[ShownLeaf, ...]
    after: tuple[ShownLeaf, ...]
    fields: tuple[FieldDifference, ...]
    more_fields: bool
    """Whether more fields differ than are listed."""


def find_difference(before: Route, after: Route) -> Difference | None:
    """Return what differs between the routes of a record; None if nothing does."""
    fields: list[FieldDifference] = []
    for one, other in _pairs(before.leaves, after.leaves):
        fields += _differing_fields(one.document, other.document)
    kinds = []
    if Counter(map(_place, before.leaves)) != Counter(map(_place, after.leaves)):
        kinds.append("route")
    if _failures(before.leaves) != _failures(after.leaves):
        kinds.append("failure")
    if fields:
        kinds.append("document")
    if not kinds:
        return None
    return Difference(
        tuple(kinds), _shown(before), _shown(after), tuple(fields[:MOST_FIELDS]), len(fields) > MOST_FIELDS
    )


def _place(leaf: Leaf) -> tuple[object, ...]:
    return leaf.edges, leaf.ending, leaf.node_id


def _failures(leaves: Sequence[Leaf]) -> Counter[tuple[str, str]]:
    return Counter((leaf.node_id, leaf.error) for leaf in leaves if leaf.ending in FAILED)


def _pairs(before: Sequence[Leaf], after: Sequence[Leaf]) -> Iterator[tuple[Leaf, Leaf]]:
    """Pair the leaves at the same place, in order; the one that is left on each side too, though it went elsewhere."""
    waiting: dict[tuple[object, ...], list[Leaf]] = {}
    for leaf in after:
        waiting.setdefault(_place(leaf), []).append(leaf)
    alone = []
    for leaf in before:
        same = waiting.get(_place(leaf))
        if same:
            yield leaf, same.pop(0)
        else:
            alone.append(leaf)
    left = [leaf for leaves in waiting.values() for leaf in leaves]
    # What failed is as it was before the node that failed: to list what is missing in it would say nothing.
    if len(alone) == len(left) == 1 and not any(leaf.ending in FAILED for leaf in (*alone, *left)):
        yield alone[0], left[0]


def _shown(route: Route) -> tuple[ShownLeaf, ...]:
    return tuple(
        ShownLeaf(leaf.edges, leaf.ending.value, leaf.node_id, leaf.error[:_MOST_TEXT])
        for leaf in route.leaves[:_MOST_LEAVES]
    )


def _differing_fields(before: PipeDoc, after: PipeDoc) -> list[FieldDifference]:
    if before == after:
        return []
    if max(before.ByteSize(), after.ByteSize()) > _MOST_BYTES:
        return [FieldDifference("(document)", f"{before.ByteSize()} bytes", f"{after.ByteSize()} bytes")]
    found = list(_walk("", _values(before), _values(after)))
    return found or [FieldDifference("blob_bag", "other content", "other content")]


def _values(document: PipeDoc) -> dict[str, Any]:
    """Return a document as plain values. Contents of blobs are left out: nobody reads them in a list."""
    copy = PipeDoc()
    copy.CopyFrom(document)
    for blob in blobs_of(copy):
        blob.ClearField("data")
    return MessageToDict(copy, preserving_proto_field_name=True)


def _walk(path: str, before: Any, after: Any) -> Iterator[FieldDifference]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            yield from _walk(f"{path}.{key}" if path else str(key), before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _walk(f"{path}[{index}]", one, other)
    else:
        yield FieldDifference(path, _cut(before), _cut(after))


def _cut(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, list):
        return f"{len(value)} items"
    text = str(value)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"
