"""What a stream follows while it drains: the graph in use, what the operator wants, the topic itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipestream.drain.request import HeldSlot
from pipestream.drain.wanted import wanted_slots, why_not_streamed
from pipestream.errors import TransientError
from pipestream.graph.flow import topic_targets
from pipestream.graph.model import Graph
from pipestream.graph.proto import graph_hash
from pipestream.kafka.broker import Broker
from pipestream.leases.store import DesiredState, LeaseStore
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# Partitions are added rarely, and asking the broker about each topic takes a request.
_LOOKS_PER_IDENTITY = 15

FindGraph = Callable[[], Graph | None]
"""Returns the graph in use, or None if there is none any more. Asked every few seconds: cache what is unchanged."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a slot now."""

    graph: Graph
    replicas: int


def find_wanted(topic: str, slot: int, graph: Graph | None, desired: DesiredState) -> Wanted | str:
    """Return what to stream a slot with, or why not to stream it. Pure."""
    if graph is None:
        return "its graph is no longer in use"
    if topic not in topic_targets(graph):
        return f"graph {graph.graph_id} no longer drains it"
    if reason := why_not_streamed(graph, topic, desired):
        return reason
    replicas = wanted_slots(graph, topic, desired)
    if slot >= replicas:
        return f"{topic} has {replicas} replicas now, so slot {slot} is not wanted any more"
    return Wanted(graph, replicas)


class Watch:
    """Tells a stream when to end its pass, because something that it follows has changed.

    ``look`` asks the servers, at most every ``stream_follow_s``, and is for one thread. ``is_over`` asks nobody, and is
    for all threads.
    """

    def __init__(
        self,
        slot: HeldSlot,
        settings: Settings,
        leases: LeaseStore,
        find_graph: FindGraph,
        broker: Broker,
        events: tuple[threading.Event, ...],
    ) -> None:
        """:param events: any of these, when set, ends the pass."""
        self._slot = slot
        self._leases = leases
        self._find_graph = find_graph
        self._broker = broker
        self._events = events
        self._follow_s = settings.stream_follow_s
        self._looked_at = time.monotonic()
        self._looks = 0
        self._has_changed = threading.Event()

    def is_over(self) -> bool:
        """Tell whether the pass is to end at the end of the chunk."""
        return self._has_changed.is_set() or any(event.is_set() for event in self._events)

    def end(self) -> None:
        """End the pass."""
        self._has_changed.set()

    def wait(self, timeout_s: float) -> None:
        """Wait, but not longer than until the pass is over."""
        self._events[0].wait(timeout_s)

    def look(self) -> bool:
        """Look whether anything has changed, if it is time to, and tell whether the pass is over."""
        if not self.is_over() and time.monotonic() - self._looked_at >= self._follow_s:
            self._looks += 1
            try:
                if reason := self._find_change():
                    log.info("%s slot %d: %s", self._slot.request.topic, self._slot.lease.slot, reason)
                    self._has_changed.set()
            except TransientError as error:
                # Whether the lease still holds is for its keeper to say.
                log.warning("%s: following what is wanted: %s", self._slot.request.topic, error)
            self._looked_at = time.monotonic()
        return self.is_over()

    def _find_change(self) -> str:
        slot, topic = self._slot, self._slot.request.topic
        wanted = find_wanted(topic, slot.lease.slot, self._find_graph(), self._leases.desired(topic))
        if isinstance(wanted, str):
            return wanted
        if graph_hash(wanted.graph) != slot.graph_hash:
            return "another version of the graph is in use"
        if wanted.replicas != slot.replicas:
            return f"it has {wanted.replicas} replicas now"
        if self._looks % _LOOKS_PER_IDENTITY == 0 and self._broker.identify(topic) != slot.identity:
            return "its partitions have changed"
        return ""
