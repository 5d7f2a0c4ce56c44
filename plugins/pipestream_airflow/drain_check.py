"""Whether a drain is worth starting, found out in plain Python before Spark's ten seconds are spent."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pipestream.drain.check import pending
from pipestream.leases import open_lease_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipestream.graph.model import Graph
    from pipestream.leases.store import Assignment, LeaseStore
    from pipestream.settings import Settings


def find_reason_to_skip(settings: Settings, graph: Graph, topic: str, run_id: str) -> str | None:
    """Return why there is no point in draining a graph's topic now, or None if there is.

    :raises TransientError: a server did not answer.
    :raises TerminalError: the topic is missing, or its ledger and the broker do not agree.
    """
    with closing(open_lease_store(settings)) as store:
        return reason_to_skip(topic, run_id, store, lambda: pending(settings, graph, topic))


def reason_to_skip(topic: str, run_id: str, store: LeaseStore, count_waiting: Callable[[], int]) -> str | None:
    """Decide on the topic's desired state, then what waits in it, then who holds it.

    Advice only: things may change before the drain starts, which checks all of it again.
    """
    if not store.desired(topic).started:
        return f"{topic} is stopped by the operator"
    if count_waiting() == 0:
        return f"nothing to drain in {topic}"
    slots = store.assignments(topic)
    # A drain's holder is its run and process. A slot of this very run is left from an earlier try of it.
    held = [slot for slot in slots if slot.holder and not slot.holder.startswith(f"{run_id}@")]
    if held and len(held) == len(slots):
        return f"{topic} is leased by {', '.join(map(_describe, held))}"
    return None


def _describe(slot: Assignment) -> str:
    return f"{slot.holder} until {slot.until:%Y-%m-%d %H:%M:%S %Z}" if slot.until else slot.holder
