"""Which stream workers are alive. Each holds a lease of its own, so others see it even if it drains nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pipestream.errors import LeaseLost, LeaseUnavailable
from pipestream.leases.names import WORKERS

if TYPE_CHECKING:
    from pipestream.leases.store import Lease, LeaseStore

log = logging.getLogger(__name__)

_ROOM = " room="


class Membership:
    """One worker among those that share the topics of a lease store.

    It is renewed by the worker's own loop, not in the background: a worker whose loop hangs is not to be counted on.
    """

    def __init__(self, store: LeaseStore, worker: str, room: int, ttl_s: float) -> None:
        """
        :param worker: the name under which the worker holds slots.
        :param room: how many slots it may hold.
        """
        self._store = store
        self._worker = worker
        self._room = room
        self._ttl_s = ttl_s
        self._lease: Lease | None = None

    def renew(self) -> dict[str, int]:
        """Show that this worker is alive, and return all that are: their names, and how many slots they may hold."""
        if self._lease is not None:
            try:
                self._store.renew(self._lease)
            except LeaseLost as error:
                log.warning("this worker was taken for dead, and joins again: %s", error)
                self._lease = None
        if self._lease is None:
            self._join()
        return {**list_workers(self._store), self._worker: self._room}

    def leave(self) -> None:
        """Show that this worker is gone, so that the others do not wait until it is taken for dead."""
        if self._lease is not None:
            self._store.release(self._lease)
            self._lease = None

    def _join(self) -> None:
        taken = {found.slot for found in self._store.assignments(WORKERS) if found.holder}
        slot = 0
        while self._lease is None:
            if slot not in taken:
                try:
                    self._lease = self._store.acquire(WORKERS, slot, f"{self._worker}{_ROOM}{self._room}", self._ttl_s)
                except LeaseUnavailable:
                    log.debug("another worker joined in place %d at the same moment", slot)
            slot += 1


def list_workers(store: LeaseStore) -> dict[str, int]:
    """Return the workers that are alive, and how many slots each may hold."""
    holders = [found.holder for found in store.assignments(WORKERS) if found.holder]
    parts = [holder.rpartition(_ROOM) for holder in holders]
    return {worker: int(room) for worker, _, room in parts if room.isdecimal()}
