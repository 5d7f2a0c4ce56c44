"""A lease store in memory whose faults a test can choose."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from pipestream.errors import LeaseLost, LeaseUnavailable
from pipestream.leases.none import NoLeaseStore
from pipestream.leases.store import Assignment, Lease, check_request, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable


class FlakyLeaseStore(NoLeaseStore):
    """Holds leases until they are released; nothing runs out by itself, so no test waits for a clock.

    Fault knobs:

    * ``fail_renewals(errors)``: the next renewals raise these, one each; ``None`` stands for one that works.
    * ``renewal_error``, ``release_error``: every further renewal or release raises this while it is set.
    * ``steal(topic, slot, holder)``: give the slot to someone else, as after an expiry.
    * ``block_renewals()``: renewals hang until ``unblock_renewals()``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.renewal_error: Exception | None = None
        self.release_error: Exception | None = None
        self.renewals = 0
        """How many renewals were asked for, those that failed included."""
        self.releases: list[Lease] = []
        self.changed = threading.Condition()
        self._held: dict[tuple[str, int], Lease] = {}
        self._planned: deque[Exception | None] = deque()
        self._is_blocked = False
        self._token = 0

    def fail_renewals(self, errors: Iterable[Exception | None]) -> None:
        self._planned.extend(errors)

    def block_renewals(self) -> int:
        """Let every renewal hang that is asked for from now on, and return how many were before."""
        with self.changed:
            self._is_blocked = True
            return self.renewals

    def unblock_renewals(self) -> None:
        with self.changed:
            self._is_blocked = False
            self.changed.notify_all()

    def steal(self, topic: str, slot: int, holder: str) -> Lease:
        with self.changed:
            self._token += 1
            lease = self._held[topic, slot] = Lease(topic, slot, holder, self._token, ttl_s=1.0)
            return lease

    def wait_for_renewals(self, count: int, timeout_s: float = 120.0) -> bool:
        """Wait until ``count`` renewals were asked for, and say whether they were."""
        with self.changed:
            return self.changed.wait_for(lambda: self.renewals >= count, timeout_s)

    def acquire(self, topic: str, slot: int, holder: str, ttl_s: float) -> Lease:
        check_request(slot, holder, ttl_s)
        self.register([topic])
        with self.changed:
            if current := self._held.get((topic, slot)):
                raise LeaseUnavailable(topic, slot, current.holder)
            self._token += 1
            lease = self._held[topic, slot] = Lease(topic, slot, holder, self._token, ttl_s)
            return lease

    def renew(self, lease: Lease) -> None:
        with self.changed:
            self.renewals += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self._is_blocked)
        if error := self._planned.popleft() if self._planned else self.renewal_error:
            raise error
        if self._held.get((lease.name, lease.slot)) != lease:
            raise LeaseLost(lease.name, lease.slot, "someone else holds it now")

    def release(self, lease: Lease) -> None:
        self.releases.append(lease)
        if self.release_error is not None:
            raise self.release_error
        with self.changed:
            if self._held.get((lease.name, lease.slot)) == lease:
                del self._held[lease.name, lease.slot]

    def longest_expiry_s(self, ttl_s: float) -> float:
        return ttl_s

    def assignments(self, topic: str | None = None) -> list[Assignment]:
        held = [Assignment(lease.name, lease.slot, lease.holder, lease.token) for lease in self._held.values()]
        return lay_out(dict.fromkeys(self._states, 1), held, topic)
