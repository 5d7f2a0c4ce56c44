"""Which slots of the accepted log this process holds, and who holds the others.

The processes of an engine share its slots by leases, on one machine or on many. A lease only keeps two processes from
fencing each other: what makes a stale holder harmless is the producer's fencing. With the lease store ``none``, the
slots are dealt out to the workers of one machine by their number.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pipestream.accepted import AcceptedSlot, accepted_topic, slot_of
from pipestream.engine_server.place import WorkerPlace, address_of, holder_of, is_dead_predecessor
from pipestream.errors import LeaseLost, LeaseUnavailable, NotOwner, PipestreamError
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.names import lease_name
from pipestream.leases.open import open_lease_store
from pipestream.leases.shares import fair_shares
from pipestream.settings import Settings

log = logging.getLogger(__name__)

NO_LEASES = "none"
# A slot that was free for so long is taken by anyone: whoever it was meant for does not come back.
_ABANDONED_S = 30.0
_CLOSE_S = 30.0


@dataclass(slots=True)
class _Held:
    """A slot of this process. It has no lease yet where its last holder is known to be dead."""

    keeper: LeaseKeeper | None
    slot: AcceptedSlot = field(init=False)

    @property
    def is_ours(self) -> bool:
        try:
            self.check()
        except LeaseLost:
            return False
        return True

    def check(self) -> None:
        """Ask the lease of now, which may have come after the slot was started.

        :raises LeaseLost: another process may have the slot.
        """
        if self.keeper is not None:
            self.keeper.check()


class Slots:
    """The slots of one process. ``for_key`` and ``any`` are safe to call from every thread."""

    def __init__(self, settings: Settings, address: str, place: WorkerPlace | None = None) -> None:
        """:param address: where this process takes calls from its peers, host:port."""
        self._settings = settings
        self._address = address
        self._place = place or WorkerPlace()
        self.count = settings.engine_slots or self._place.workers
        """How many slots there are. The same in every process of the engine."""
        topic = accepted_topic(settings.engine_name)
        self._slots_name = lease_name(topic, "slots")
        self._members_name = lease_name(topic, "members")
        self._holder = holder_of(address)
        self._store = open_lease_store(settings)
        self._held: dict[int, _Held] = {}
        self._owners: Mapping[int, str] = {}
        self._member: LeaseKeeper | None = None
        self._free_since: dict[int, float] = {}
        self._turn = itertools.count()
        self.last_error = ""
        """Why the last look at the leases failed; empty: it did not."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="engine slots", daemon=True)

    @property
    def held(self) -> dict[int, AcceptedSlot]:
        """Return the slots that this process holds, by number."""
        return {number: held.slot for number, held in sorted(self._held.items())}

    @property
    def takes_calls(self) -> bool:
        """Whether calls find a slot: one of this process, or one of another process to hand them on to."""
        is_here = any(not held.slot.stopped.is_set() for held in list(self._held.values()))
        return is_here or any(self._owner(number) for number in range(self.count))

    def start(self) -> None:
        """Take this process's share of the slots, and look after them in a thread.

        It may get none at first, where all are held. It then gets some as soon as a holder has more than its share.

        :raises AcceptedLogInvalid: the accepted log is for another number of slots, or a shorter window.
        :raises TransientError: Kafka or the lease store did not answer.
        """
        try:
            if self._settings.leases == NO_LEASES:
                self._take_by_number()
            else:
                self._look()
        except BaseException:
            self.close(0)
            raise
        self._thread.start()

    def for_key(self, key: str) -> AcceptedSlot:
        """Return the slot that accepts a key.

        :raises NotOwner: another process has it; the error names its address.
        """
        number = slot_of(key, self.count)
        held = self._held.get(number)
        if held is None or held.slot.stopped.is_set():
            raise NotOwner(number, self._owner(number))
        return held.slot

    def any(self) -> AcceptedSlot:
        """Return a slot for a call without a key.

        :raises NotOwner: this process has none; the error names one that has.
        """
        usable = [held.slot for held in list(self._held.values()) if not held.slot.stopped.is_set()]
        if usable:
            return usable[next(self._turn) % len(usable)]
        number = next(self._turn) % self.count
        raise NotOwner(number, self._owner(number))

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Finish what the slots have taken, and give them back."""
        deadline = time.monotonic() + timeout_s
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        for number in list(self._held):
            self._give_back(number, max(0.0, deadline - time.monotonic()))
        if self._member is not None:
            self._member.__exit__(None, None, None)
        self._store.close()

    def _is_dead(self, holder: str) -> bool:
        return holder in self._place.dead_holders or is_dead_predecessor(holder, self._address)

    def _owner(self, number: int) -> str:
        owner = self._owners.get(number, "")
        return "" if owner == self._address else owner

    def _watch(self) -> None:
        while not self._stop.wait(min(2.0, self._settings.lease_ttl_s / 5)):
            try:
                if self._settings.leases == NO_LEASES:
                    self._restart_stopped(list(self._held))
                else:
                    self._look()
                self.last_error = ""
            except PipestreamError as error:
                self.last_error = str(error)
                log.warning("the slots of the engine are not looked after: %s; trying again", error)
            except Exception as error:
                self.last_error = f"unexpected {type(error).__name__}: {error}"
                log.exception("the slots of the engine are not looked after; trying again")

    def _take_by_number(self) -> None:
        place = self._place
        self._owners = {number: place.peer(number % place.workers) for number in range(self.count)}
        for number in range(place.index, self.count, place.workers):
            self._held[number] = self._open(number, None)

    def _look(self) -> None:
        """Bring the slots of this process and of the others into balance.

        1. Start leased slots again that stopped, and give up those whose lease is lost. It is done first because it
           needs no lease store, which may be away.
        2. Say that this process is there.
        3. See who holds what.
        4. Start slots again that stopped and have no lease yet, unless another process has leased them.
        5. Take what is free, up to a fair share (``leases/shares.py``).
        6. Give one back where this process has more than its share.
        """
        self._restart_stopped([number for number, held in self._held.items() if held.keeper is not None])
        self._join()
        holders = {each.slot: each.holder for each in self._store.assignments(self._slots_name) if each.holder}
        members = {each.holder for each in self._store.assignments(self._members_name) if each.holder}
        members = {self._holder, *(each for each in members if not self._is_dead(each))}
        self._owners = {number: address_of(holder) for number, holder in holders.items()}
        self._yield_to_lessees(holders)
        self._restart_stopped(list(self._held))
        # Workers of this parent that have not joined yet get their share, too.
        expected = {f"worker {number}" for number in range(len(members), self._place.workers)}
        self._take_free(holders, self._share(holders, members | expected))
        if len(self._held) > self._share(holders, members):
            self._give_one_up()

    def _join(self) -> None:
        if self._member is not None and not self._member.lost.is_set():
            return
        taken = {each.slot for each in self._store.assignments(self._members_name) if each.holder}
        for number in itertools.count():
            if number in taken:
                continue
            try:
                self._member = self._keep(self._members_name, number)
            except LeaseUnavailable:
                continue  # another process was faster
            return

    def _restart_stopped(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            held = self._held[number]
            if not held.is_ours:
                log.warning("slot %d of the engine is given up: its lease is lost", number)
                self._give_back(number, 0)
            elif held.slot.stopped.is_set():
                # Fenced though nobody else has the lease: the broker did, because a transaction took too long.
                self._held[number] = self._open(number, held.keeper)

    def _yield_to_lessees(self, holders: Mapping[int, str]) -> None:
        """Give up slots that were taken from a dead holder, and that another process has leased since."""
        for number, held in list(self._held.items()):
            holder = holders.get(number, "")
            if held.keeper is None and holder not in ("", self._holder) and not self._is_dead(holder):
                log.warning("slot %d of the engine was leased by %s, which takes it over", number, holder)
                self._give_back(number, 0)

    def _share(self, holders: Mapping[int, str], members: set[str]) -> int:
        """Return how many slots this process is to hold."""
        held = {**Counter(holders.values()), self._holder: len(self._held)}
        return fair_shares(self.count, dict.fromkeys(members, self.count), held)[self._holder]

    def _take_free(self, holders: Mapping[int, str], share: int) -> None:
        now = time.monotonic()
        for number in range(self.count):
            holder = holders.get(number, "")
            held = self._held.get(number)
            if held is not None:
                if held.keeper is None and not holder:
                    self._lease_late(number, held)
                continue
            is_dead = self._is_dead(holder)
            if holder and not is_dead:
                self._free_since.pop(number, None)
                continue
            is_abandoned = now - self._free_since.setdefault(number, now) > _ABANDONED_S
            if len(self._held) < share or is_abandoned:
                self._take(number, with_lease=not is_dead)

    def _take(self, number: int, *, with_lease: bool) -> None:
        """Take a slot. One whose holder is dead is taken at once, and leased when its old lease has run out."""
        try:
            keeper = self._keep(self._slots_name, number) if with_lease else None
        except (LeaseUnavailable, LeaseLost):
            return  # another process was faster
        try:
            self._held[number] = self._open(number, keeper)
        except BaseException:
            if keeper is not None:
                keeper.__exit__(None, None, None)
            raise
        self._free_since.pop(number, None)
        self._owners = {**self._owners, number: self._address}
        log.info("slot %d of %d of the engine is here", number, self.count)

    def _lease_late(self, number: int, held: _Held) -> None:
        with suppress(LeaseUnavailable, LeaseLost):  # the next look finds who has it
            held.keeper = self._keep(self._slots_name, number)

    def _keep(self, name: str, number: int) -> LeaseKeeper:
        lease = self._store.acquire(name, number, self._holder, self._settings.lease_ttl_s)
        return LeaseKeeper(self._store, lease).__enter__()

    def _open(self, number: int, keeper: LeaseKeeper | None) -> _Held:
        held = _Held(keeper)
        held.slot = AcceptedSlot(self._settings, number, self.count, check_ours=held.check)
        held.slot.start()
        return held

    def _give_one_up(self) -> None:
        """Give one slot back at a time, so that the others of this process go on."""
        number = max(self._held)
        log.info("slot %d of the engine is given to a process that has fewer", number)
        self._give_back(number, _CLOSE_S)
        self._free_since[number] = time.monotonic()

    def _give_back(self, number: int, timeout_s: float) -> None:
        """Finish a slot's calls, then free its lease: the next holder would fence them."""
        held = self._held.pop(number)
        held.slot.close(timeout_s)
        if held.keeper is not None:
            held.keeper.__exit__(None, None, None)
        self._owners = {each: owner for each, owner in self._owners.items() if each != number}
