"""One slot of one topic, drained continuously for as long as its lease is held.

The contract, for whoever holds leases (``worker.py``)::

    with LeaseKeeper(store, lease, on_lost=lambda why: stream.cancel(why)) as keeper:
        stream = TopicStream(topic, find_graph, keeper, store, settings, executor, recorder)
        ended = stream.run(stop)
    # The lease is released here, after everything that was drained is in the ledger.

``run`` returns when ``stop`` is set, when the lease is lost, when the topic is no longer to be streamed (stopped, in
batch mode, scaled down, not in its graph any more), or on an error that a retry does not help. It returns at the end
of a chunk. ``ended.error`` is set in the last case only; the caller should wait before it tries the slot again.
Errors that pass (a broker or store that does not answer) are retried inside, for as long as the lease is held.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from pipestream import faults
from pipestream.drain.live_lane import LiveLane
from pipestream.drain.request import DrainRequest, HeldSlot
from pipestream.drain.slot_run import enter_recovered
from pipestream.drain.topics_there import await_outputs, await_topic
from pipestream.errors import LeaseLost, LedgerConflict, PipestreamError
from pipestream.graph.proto import graph_hash
from pipestream.ids import new_run_id
from pipestream.kafka.broker import Broker
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.store import LeaseStore
from pipestream.ledger import Ledger, Tally
from pipestream.offsets.plan import find_waiting
from pipestream.settings import Settings
from pipestream.stream.executors import Executor
from pipestream.stream.recorder import Recorder
from pipestream.stream.unrecorded import Unrecorded
from pipestream.stream.watch import FindGraph, Wanted, Watch, find_wanted

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_STABLE_S = 5.0


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """Why a stream ended, and what it did."""

    reason: str
    tally: Tally
    error: PipestreamError | None = None
    """What a person has to look at; None where it ended as asked for."""


class TopicStream:
    """Drains one slot of a topic in passes: each reconciles, drains until something changes, and records the rest."""

    def __init__(
        self,
        topic: str,
        find_graph: FindGraph,
        keeper: LeaseKeeper,
        leases: LeaseStore,
        settings: Settings,
        executor: Executor,
        recorder: Recorder,
        *,
        run_id: str = "",
        broker: Broker | None = None,
    ) -> None:
        """
        :param find_graph: returns the graph in use for the lane of the lease; see ``FindGraph``.
        :param keeper: entered already; it renews the lease, and releases it after ``run``.
        :param run_id: names the stream in the ledger's entries. Generated unless given.
        :param broker: shared by the streams of a process; one of its own unless given.
        """
        self.topic = topic
        self._find_graph = find_graph
        self._keeper = keeper
        self._leases = leases
        self._settings = settings
        self._executor = executor
        self._recorder = recorder
        self._run_id = run_id or new_run_id("stream")
        # A topic that is missing ends the stream: whoever holds the lease waits, says so, and can be asked to stop.
        self._look_once = settings.model_copy(update={"topic_attempts": 1})
        self._broker = broker or Broker(settings)
        self._ledger = Ledger(settings)
        self._total = Tally()
        self._parts: Unrecorded | None = None
        self._positions: dict[int, int] = {}
        self._trouble = ""
        self._failures = 0

    @property
    def tally(self) -> Tally:
        """Return what became of the records that were drained so far. May be asked from any thread."""
        parts = self._parts
        return self._total + parts.total if parts else self._total

    @property
    def positions(self) -> Mapping[int, int]:
        """Return where each partition continues: the offsets that are committed. May be asked from any thread."""
        parts = self._parts
        return parts.positions if parts else self._positions

    @property
    def in_flight(self) -> int:
        """Return how many records are being processed."""
        parts = self._parts
        return parts.in_flight if parts else 0

    @property
    def stalled_s(self) -> float:
        """Return how long records have been in work without a commit; 0 if none are."""
        parts = self._parts
        return parts.stalled_s if parts else 0.0

    @property
    def trouble(self) -> str:
        """Return why it cannot drain at the moment, although it tries; empty if it can.

        A pass that has drained something is well, and so is one that has run for a while with nothing to drain.
        """
        parts = self._parts
        if parts and (parts.total.records or (not parts.in_flight and parts.age_s > _STABLE_S)):
            return ""
        return self._trouble

    @property
    def failures(self) -> int:
        """Return how often it has failed since it last could drain."""
        return self._failures if self.trouble else 0

    def run(self, stop: threading.Event) -> StreamEnded:
        """Drain until ``stop`` is set, or until there is a reason to end; see the top of this module."""
        pause_s = _FIRST_PAUSE_S
        while True:
            if stop.is_set():
                return self._ended("it was asked to end")
            if self._keeper.lost.is_set():
                return self._ended("the lease was lost")
            drained_before = self.tally.records
            try:
                wanted = self._find_wanted()
                if isinstance(wanted, str):
                    return self._ended(wanted)
                self._drain(wanted, stop)
            except PipestreamError as error:
                # A conflict means that another run has recorded these ranges. The next pass finds out where it got to.
                if not error.transient and not isinstance(error, LedgerConflict):
                    log.error("%s slot %d: %s", self.topic, self._keeper.lease.slot, error)
                    return self._ended(str(error), error)
                if self.tally.records > drained_before:
                    pause_s, self._failures = _FIRST_PAUSE_S, 0
                log.warning("%s slot %d: again in %.1f s: %s", self.topic, self._keeper.lease.slot, pause_s, error)
                self._trouble = str(error)
                self._failures += 1
                stop.wait(pause_s)
                pause_s = min(2 * pause_s, self._settings.stream_pause_max_s)
            else:
                pause_s = _FIRST_PAUSE_S

    def cancel(self, why: LeaseLost) -> None:
        """Stop what is under way before its next transaction: the lease is lost. May be called from any thread."""
        self._executor.cancel(why)

    def _find_wanted(self) -> Wanted | str:
        return find_wanted(self.topic, self._keeper.lease.slot, self._find_graph(), self._leases.desired(self.topic))

    def _drain(self, wanted: Wanted, stop: threading.Event) -> None:
        """Drain with one version of the graph, until something changes; then record what was drained."""
        slot = self._hold(wanted)
        await_outputs(self.topic, slot.graph, self._look_once, self._broker, self._keeper.check)
        parts = self._reconcile(slot)
        watch = Watch(slot, self._settings, self._leases, self._find_graph, self._broker, (stop, self._keeper.lost))
        self._parts = parts
        self._recorder.join(parts, on_conflict=watch.end)
        try:
            self._executor.drain(parts, watch)
        finally:
            self._total, self._positions, self._parts = self._total + parts.total, parts.positions, None
            self._recorder.leave(parts)

    def _hold(self, wanted: Wanted) -> HeldSlot:
        graph = wanted.graph
        request = DrainRequest(graph, self.topic, self._run_id, self._settings.stream_budget)
        await_topic(request, self._look_once, self._broker, refuse=str)
        identity = request.lane.identify(self.topic, self._broker, self._ledger)
        return HeldSlot(request, self._keeper.lease, wanted.replicas, identity, graph, graph_hash(graph))

    def _reconcile(self, slot: HeldSlot) -> Unrecorded:
        """Bring ``L`` up to ``G``, and return where each partition of the slot starts."""
        lane = LiveLane.of(slot.graph)
        stood = lane.reconcile(slot, self._broker, self._ledger)
        self._keeper.check()
        enter_recovered(self._ledger, stood.recovered)
        find_waiting(self.topic, stood.next_offsets, stood.watermarks)  # refuses what a run would refuse
        faults.reach(faults.STREAM_RECONCILED)
        # A partition that was added is read from its beginning.
        starts = {partition: stood.next_offsets.get(partition, 0) for partition in stood.watermarks}
        return Unrecorded(slot, starts, self._keeper.check)

    def _ended(self, reason: str, error: PipestreamError | None = None) -> StreamEnded:
        log.info(
            "%s slot %d ends after %d records: %s", self.topic, self._keeper.lease.slot, self.tally.records, reason
        )
        return StreamEnded(reason, self.tally, error)
