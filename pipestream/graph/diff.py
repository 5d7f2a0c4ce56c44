"""What changed between two versions of a graph, for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pipestream.graph.write import graph_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.graph.model import Graph

_PARTS = {"datasources": "datasource", "nodes": "node", "edges": "edge"}


class ChangeKind(Enum):
    """What happened to a part of a graph."""

    ADDED = "+"
    REMOVED = "-"
    CHANGED = "~"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``what`` is the part, such as ``node parse``; ``field`` is empty for a whole part."""

    kind: ChangeKind
    what: str
    field: str = ""
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        if not self.field:
            return f"{self.kind.value} {self.what}"
        where = f"{self.kind.value} {self.what}: {self.field}"
        match self.kind:
            case ChangeKind.ADDED:
                return f"{where} = {_show(self.new)}"
            case ChangeKind.REMOVED:
                return f"{where} (was {_show(self.old)})"
            case ChangeKind.CHANGED:
                return f"{where} {_show(self.old)} → {_show(self.new)}"


def diff_graphs(old: Graph, new: Graph) -> list[Change]:
    """Return the differences, in the order of a graph file. The order of its parts does not count."""
    old_values, new_values = graph_values(old), graph_values(new)
    plain_old = {key: value for key, value in old_values.items() if key not in _PARTS}
    plain_new = {key: value for key, value in new_values.items() if key not in _PARTS}
    changes = _diff_fields("graph", plain_old, plain_new)
    for key, what in _PARTS.items():
        old_parts = {_part_id(part): part for part in old_values.get(key, ())}
        new_parts = {_part_id(part): part for part in new_values.get(key, ())}
        changes += [Change(ChangeKind.REMOVED, f"{what} {name}") for name in old_parts if name not in new_parts]
        for name, part in new_parts.items():
            if name in old_parts:
                changes += _diff_fields(f"{what} {name}", old_parts[name], part)
            else:
                changes.append(Change(ChangeKind.ADDED, f"{what} {name}"))
    return changes


def _diff_fields(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    changes = []
    for field in [*old, *(field for field in new if field not in old)]:
        if field not in new:
            changes.append(Change(ChangeKind.REMOVED, what, field, old=old[field]))
        elif field not in old:
            changes.append(Change(ChangeKind.ADDED, what, field, new=new[field]))
        elif old[field] != new[field]:
            changes.append(Change(ChangeKind.CHANGED, what, field, old[field], new[field]))
    return changes


def _part_id(values: Mapping[str, Any]) -> str:
    return str(values.get("id") or f"{values['from']}--{values['to']}")


def _show(value: Any) -> str:
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
