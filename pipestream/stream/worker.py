"""The loop of a worker: see what is to be drained and who else works, take a fair share of the slots, and drain them.

Every ``reconcile_s`` seconds:

1. Read which slots are to be drained: the applied graphs, and what the operator wants of their topics.
2. Show that this worker is alive, and see which others are.
3. Give up slots that are not to be drained any more, and those beyond this worker's share (``shares.py``).
4. Acquire free slots up to the share. Each is drained in a thread of its own (``slot_thread.py``).

A slot that is given up drains to the end of its chunk, records what it did, and only then gives back its lease. A
worker that dies keeps its slots until its leases run out; the next round of the others takes them over.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping

from pipestream.errors import LeaseUnavailable, PipestreamError
from pipestream.leases.store import LeaseStore
from pipestream.leases.workers import Membership
from pipestream.settings import Settings
from pipestream.stream.shares import Sighting, SlotKey, decide
from pipestream.stream.slot_thread import OpenStream, SlotStatus, SlotThread
from pipestream.stream.wanted import StreamSpec
from pipestream.telemetry.health import Pulse

log = logging.getLogger(__name__)

# A signal that another thread receives does not wake this one.
_STOP_POLL_S = 0.2

FindWanted = Callable[[], Mapping[SlotKey, StreamSpec]]


class StreamWorker:
    """Holds a fair share of the slots that are to be drained all the time, and drains them."""

    def __init__(
        self,
        settings: Settings,
        leases: LeaseStore,
        find_wanted: FindWanted,
        open_stream: OpenStream,
        *,
        name: str,
        max_leases: int | None = None,
        is_sharing: bool = True,
    ) -> None:
        """
        :param find_wanted: returns the slots that are to be drained now.
        :param name: under which this worker holds leases; no other process has it.
        :param max_leases: how many slots it holds at most; the setting ``sidecar_max_leases`` unless given.
        :param is_sharing: whether it is to drain the same slots as the other workers. One that drains a part of them
            must not share: the others would leave it a share of all slots, which it does not take. It takes free slots
            instead, and the others see those as they see a batch run's.
        """
        self.name = name
        self.is_sharing = is_sharing
        self.has_leases = settings.leases != "none"
        self.max_leases = max_leases or settings.sidecar_max_leases
        self._settings = settings
        self._leases = leases
        self._find_wanted = find_wanted
        self._open_stream = open_stream
        # Three rounds may fail before the others take this worker for dead.
        ttl_s = max(settings.lease_ttl_s, 4 * settings.reconcile_s)
        self._membership = Membership(leases, name, self.max_leases, ttl_s)
        self._guard = threading.Lock()
        self._slots: dict[SlotKey, SlotThread] = {}
        """In the order in which they were acquired."""
        self._paused: set[str] = set()
        """Topics that an operator has paused in this worker."""
        self._wake = threading.Event()
        self._last_error = ""
        self._rounds = 0
        self.pulse = Pulse(settings.health_stall_s + 2 * settings.reconcile_s)
        """Of the rounds, whether they succeed or not."""

    def run(self, stop: threading.Event) -> None:
        """Work until asked to stop; then end all slots, and give back every lease."""
        if not self.has_leases:
            log.warning(
                "PIPESTREAM_LEASES is none: this worker drains every topic of every applied graph, in one stream each. "
                "Replicas, modes and max_leases do not apply, and a second worker would only fence this one"
            )
        try:
            while not stop.is_set():
                self._try_round()
                self._wait(stop)
        finally:
            self._end_all()

    def wake(self) -> None:
        """Begin the next round now."""
        self._wake.set()

    @property
    def last_error(self) -> str:
        """Return why the last round failed; empty if it did not."""
        return self._last_error

    @property
    def rounds(self) -> int:
        """Return how many rounds have succeeded."""
        return self._rounds

    def statuses(self) -> list[SlotStatus]:
        """Return how the slots are that this worker holds."""
        with self._guard:
            slots = list(self._slots.values())
        return [slot.status() for slot in slots if slot.is_alive]

    def pause(self, topic: str, paused: bool) -> bool:
        """Pause or resume a topic in this worker, and return whether it holds a slot of it, or had it paused.

        A paused slot keeps its lease, so that nobody else drains it. This is forgotten when the worker ends.
        """
        with self._guard:
            slots = [slot for key, slot in self._slots.items() if slot.status().spec.topic == topic]
            known = bool(slots) or topic in self._paused
            if paused and known:
                self._paused.add(topic)
            elif not paused:
                self._paused.discard(topic)
            for slot in slots:
                slot.pause(paused)
        return known

    def restart(self, should_restart: Callable[[StreamSpec], bool]) -> None:
        """Open streams again at the end of their chunk, because their settings have changed."""
        with self._guard:
            for slot in self._slots.values():
                if should_restart(slot.status().spec):
                    slot.restart()

    def reconcile(self) -> None:
        """Do one round.

        :raises PipestreamError: a server did not answer. What is drained is drained on.
        """
        wanted = self._find_wanted()
        if not self.has_leases:
            self._follow(wanted, give_up=[key for key in self._slots if key not in wanted], acquire=list(wanted))
            return
        workers = self._membership.renew() if self.is_sharing else {self.name: self.max_leases}
        holders = {SlotKey(a.name, a.slot): a.holder for a in self._leases.assignments() if a.holder}
        with self._guard:
            mine = [key for key, slot in self._slots.items() if slot.is_alive and not slot.is_ending]
            keep = [key for key in mine if self._slots[key].is_paused]
        decision = decide(self.name, mine, Sighting(workers, list(wanted), holders), keep)
        self._follow(wanted, decision.give_up, decision.acquire)
        theirs = [key for key in wanted if holders.get(key, self.name) in workers]
        if len(theirs) > sum(workers.values()):
            log.warning(
                "%d slots are to be drained, and %d workers have room for %d: start another, or raise "
                "sidecar_max_leases",
                len(theirs),
                len(workers),
                sum(workers.values()),
            )

    def _follow(
        self, wanted: Mapping[SlotKey, StreamSpec], give_up: Collection[SlotKey], acquire: Collection[SlotKey]
    ) -> None:
        with self._guard:
            for key, slot in list(self._slots.items()):
                if not slot.is_alive:
                    del self._slots[key]
                elif key in give_up:
                    slot.end("another worker is to drain it" if key in wanted else "it is not to be drained any more")
                elif key in wanted:
                    slot.update(wanted[key])
        for key in acquire:
            if key not in self._slots:
                self._acquire(key, wanted[key])

    def _acquire(self, key: SlotKey, spec: StreamSpec) -> None:
        try:
            lease = self._leases.acquire(key.name, key.slot, self.name, self._settings.lease_ttl_s)
        except LeaseUnavailable as error:
            log.info("%s", error)
            return
        slot = SlotThread(self._leases, lease, spec, self._open_stream, self.wake)
        log.info("%s: acquired, token %d", key, lease.token)
        with self._guard:
            slot.pause(spec.topic in self._paused)
            self._slots[key] = slot
            slot.start()

    def _try_round(self) -> None:
        try:
            self.reconcile()
        except PipestreamError as error:
            self._last_error = str(error)
            log.warning("this round failed, and what is drained is drained on: %s", error)
        except Exception as error:
            self._last_error = f"{type(error).__name__}: {error}"
            log.exception("unexpected")
        else:
            self._last_error = ""
            self._rounds += 1
        finally:
            self.pulse.beat()

    def _wait(self, stop: threading.Event) -> None:
        """Wait for the next round: a little more or less than ``reconcile_s``, so that workers do not act in step."""
        deadline = time.monotonic() + self._settings.reconcile_s * random.uniform(0.8, 1.2)  # noqa: S311
        while not stop.is_set() and (left_s := deadline - time.monotonic()) > 0:
            if self._wake.wait(min(left_s, _STOP_POLL_S)):
                break
        self._wake.clear()

    def _end_all(self) -> None:
        with self._guard:
            slots = list(self._slots.values())
        for slot in slots:
            slot.end("the worker ends")
        deadline = time.monotonic() + self._settings.sidecar_stop_s
        for slot in slots:
            slot.join(max(0.0, deadline - time.monotonic()))
        left = [str(slot.key) for slot in slots if slot.is_alive]
        if left:
            log.error("these slots did not end in time, and their leases run out by themselves: %s", ", ".join(left))
        if self.has_leases:
            try:
                self._membership.leave()
            except PipestreamError as error:
                log.warning("the others see that this worker is gone when its lease runs out: %s", error)
