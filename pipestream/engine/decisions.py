"""Count what conditions decide: how often each was true, false, or failed.

Every condition of a node is evaluated for every document that is routed there, so a count per node and one per edge
that was true are enough: a condition was false for the others. A document on which one fails goes nowhere, and counts
only there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pipestream.errors import ConditionError

if TYPE_CHECKING:
    from pipestream.engine.process import Emission
    from pipestream.graph.model import Edge

# A space is in no id, so these names are those of no edge.
_ROUTED: Final = "routed "
_TRUE: Final = "true "
_FAILED: Final = "failed "


@dataclass(frozen=True, slots=True)
class ConditionCounts:
    """How often a condition was true, false, or failed."""

    true: int
    false: int
    failed: int


def note_decision(emission: Emission, decisions: list[str]) -> None:
    """Add what conditions decided about an emission."""
    if emission.is_decided:
        decisions.append(_ROUTED + emission.node_id)
    if emission.edge is not None:
        if emission.edge.condition:
            decisions.append(_TRUE + emission.edge.edge_id)
    elif isinstance(emission.error, ConditionError):
        decisions.append(_FAILED + emission.error.edge_id)


def count_conditions(edge: Edge, decisions: Mapping[str, int]) -> ConditionCounts | None:
    """Return how an edge's condition was decided; None for an edge without one, and where nothing was counted."""
    routed, failed = decisions.get(_ROUTED + edge.from_node_id, 0), decisions.get(_FAILED + edge.edge_id, 0)
    if not edge.condition.strip() or not routed + failed:
        return None
    true = decisions.get(_TRUE + edge.edge_id, 0)
    return ConditionCounts(true, max(0, routed - true), failed)
