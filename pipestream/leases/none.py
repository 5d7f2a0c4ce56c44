"""No leases: every worker may drain every topic (the no-leases mode).

Nothing is coordinated, so how many drains run is how many were started. The ledger and the producer's
fencing still keep each record exactly once: two runs on one topic only waste each other's work.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pipestream.leases.names import check_leased, is_backfill_lease, leased_topic
from pipestream.leases.store import Assignment, DesiredState, Lease, check_request, is_asked_for, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)


class NoLeaseStore:
    """Grants every lease, with token 0, and forgets everything when the process ends.

    Registered topics, their modes and started or stopped are remembered in this process alone. Replicas are always 1:
    with nothing to hand out slots, every worker would take slot 0 and the other slots' partitions would
    never be drained.
    """

    def __init__(self) -> None:
        self._states: dict[str, DesiredState] = {}
        self._lock = threading.Lock()

    def register(self, names: Sequence[str]) -> None:
        checked = [check_leased(name) for name in names]
        with self._lock:
            for name in checked:
                self._states.setdefault(name, DesiredState())

    def unregister(self, names: Sequence[str]) -> None:
        for name in [check_leased(name) for name in names]:
            with self._lock:
                self._states = {each: state for each, state in self._states.items() if not is_asked_for(each, name)}

    def topics(self) -> list[str]:
        with self._lock:
            return sorted({leased_topic(name) for name in self._states if not is_backfill_lease(name)})

    def desired(self, topic: str) -> DesiredState:
        with self._lock:
            return self._states.get(check_leased(topic), DesiredState())

    def set_desired(self, topic: str, state: DesiredState) -> None:
        """Remember whether a topic is started, and its mode; its replicas stay 1, and a warning says so."""
        check_leased(topic)
        if state.replicas != 1:
            log.warning(
                "%s: %d replicas asked for, but without leases every worker runs one drain; "
                "set leases to sql or consul to have replicas",
                topic,
                state.replicas,
            )
        with self._lock:
            self._states[topic] = replace(state, replicas=1)

    def acquire(self, name: str, slot: int, holder: str, ttl_s: float) -> Lease:
        check_request(slot, holder, ttl_s)
        self.register([name])
        return Lease(name, slot, holder, token=0, ttl_s=ttl_s)

    def renew(self, lease: Lease) -> None:
        """Nothing runs out here."""

    def release(self, lease: Lease) -> None:
        """Nothing is held here."""

    def longest_expiry_s(self, ttl_s: float) -> float:  # noqa: ARG002
        """Nothing stays taken."""
        return 0.0

    def wait_free(self, name: str, slot: int, timeout_s: float) -> bool:  # noqa: ARG002
        check_leased(name)
        return True

    def assignments(self, name: str | None = None) -> list[Assignment]:
        """Return one free slot per registered name: who drains it is not known here."""
        if name is not None:
            check_leased(name)
        with self._lock:
            registered = dict.fromkeys(self._states, 1)
        return lay_out(registered, [], name)

    def close(self) -> None:
        """Nothing to give back."""
