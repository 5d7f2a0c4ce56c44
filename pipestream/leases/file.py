"""Leases in a folder: for the processes of one machine that has neither PostgreSQL nor Consul.

All state is one JSON file. Every change is made under a lock on a second file, written beside it and renamed, so that a
reader sees the state before or after a change and a crash leaves no half of one. The kernel frees the lock of a process
that dies.

Limits: the folder must be on a local disk of one machine, because the locks of network file systems cannot be relied
on and the times are this machine's. A clock that is set forward ends leases early. As with every store, that is
harmless: fencing and the ledger stop a stale holder. It needs a POSIX system.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestream.errors import LeaseLost, LeaseStoreRefused, LeaseStoreUnavailable, LeaseUnavailable
from pipestream.leases.names import check_leased, is_backfill_lease, leased_topic
from pipestream.leases.store import (
    EXPIRY_SLACK_S,
    Assignment,
    DesiredState,
    Lease,
    check_request,
    is_asked_for,
    lay_out,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipestream.settings import Settings

STATE_FILE = "leases.json"
LOCK_FILE = "lock"
# A change takes about a millisecond, so a lock that is held this long belongs to a process that is stopped.
_LOCK_TIMEOUT_S = 8.0
_LOCK_POLL_S = 0.005
_FREE_POLL_S = 0.05


@dataclass(slots=True)
class _Held:
    holder: str
    token: int
    until: float
    """Seconds since the epoch."""


@dataclass(slots=True)
class _State:
    """What the file holds."""

    last_token: int = 0
    """Kept when topics are forgotten, so that tokens only ever grow."""
    names: dict[str, DesiredState | None] = field(default_factory=dict)
    """Every registered name, and what the operator wants of it if that was said."""
    leases: dict[str, dict[int, _Held]] = field(default_factory=dict)

    def find(self, name: str, slot: int) -> _Held | None:
        """Return who holds a slot now."""
        held = self.leases.get(name, {}).get(slot)
        return held if held and held.until > time.time() else None

    def is_of(self, lease: Lease) -> bool:
        held = self.find(lease.name, lease.slot)
        return held is not None and (held.holder, held.token) == (lease.holder, lease.token)


class FileLeaseStore:
    """Leases, registrations and desired states in a folder of this machine."""

    def __init__(self, settings: Settings) -> None:
        # Absolute, so that a process that changes its working folder keeps its leases.
        self._folder = settings.lease_folder.absolute()

    def register(self, names: Sequence[str]) -> None:
        checked = [check_leased(name) for name in names]
        with self._changing() as state:
            for name in checked:
                state.names.setdefault(name, None)

    def unregister(self, names: Sequence[str]) -> None:
        checked = [check_leased(name) for name in names]
        with self._changing() as state:
            for name in checked:
                state.names = {each: kept for each, kept in state.names.items() if not is_asked_for(each, name)}
                state.leases = {each: kept for each, kept in state.leases.items() if not is_asked_for(each, name)}

    def topics(self) -> list[str]:
        return sorted({leased_topic(name) for name in self._read().names if not is_backfill_lease(name)})

    def desired(self, topic: str) -> DesiredState:
        check_leased(topic)
        return self._read().names.get(topic) or DesiredState()

    def set_desired(self, topic: str, state: DesiredState) -> None:
        check_leased(topic)
        with self._changing() as kept:
            kept.names[topic] = state

    def acquire(self, name: str, slot: int, holder: str, ttl_s: float) -> Lease:
        check_request(slot, holder, ttl_s)
        check_leased(name)
        with self._changing() as state:
            if held := state.find(name, slot):
                raise LeaseUnavailable(name, slot, held.holder)
            state.names.setdefault(name, None)
            state.last_token += 1
            state.leases.setdefault(name, {})[slot] = _Held(holder, state.last_token, time.time() + ttl_s)
            return Lease(name, slot, holder, state.last_token, ttl_s)

    def renew(self, lease: Lease) -> None:
        with self._changing() as state:
            held = state.find(lease.name, lease.slot)
            if held is None:
                raise LeaseLost(lease.name, lease.slot, "it ran out, or the topic was unregistered")
            if not state.is_of(lease):
                raise LeaseLost(lease.name, lease.slot, f"{held.holder} holds it now")
            held.until = time.time() + lease.ttl_s

    def release(self, lease: Lease) -> None:
        with self._changing() as state:
            if state.is_of(lease):
                del state.leases[lease.name][lease.slot]

    def longest_expiry_s(self, ttl_s: float) -> float:
        return ttl_s + EXPIRY_SLACK_S

    def wait_free(self, name: str, slot: int, timeout_s: float) -> bool:
        check_leased(name)
        deadline = time.monotonic() + timeout_s
        while self._read().find(name, slot):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(left_s, _FREE_POLL_S))
        return True

    def assignments(self, name: str | None = None) -> list[Assignment]:
        if name is not None:
            check_leased(name)
        state = self._read()
        now = time.time()
        held = [
            Assignment(each, slot, found.holder, found.token, datetime.fromtimestamp(found.until, UTC))
            for each, slots in state.leases.items()
            for slot, found in slots.items()
            if found.until > now
        ]
        return lay_out({each: (wanted or DesiredState()).replicas for each, wanted in state.names.items()}, held, name)

    def close(self) -> None:
        """Nothing to give back: files are open only during a call."""

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_State]:
        """Give the state to change, alone on this machine. It is written unless the change raises."""
        with self._locked():
            state = self._read()
            yield state
            self._write(state)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        with self._explained():
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise LeaseStoreUnavailable(
                            f"{self._folder / LOCK_FILE} has been locked for {_LOCK_TIMEOUT_S:g} s; a process that "
                            f"holds it is stopped"
                        ) from None
                    time.sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(lock)  # which frees the lock

    def _read(self) -> _State:
        file = self._folder / STATE_FILE
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return _State()
        except OSError as error:
            raise self._refused(error) from error
        try:
            return _parse(json.loads(data))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LeaseStoreRefused(
                f"{file} is not a file of leases ({error}); delete it, and apply the graphs again"
            ) from error

    def _write(self, state: _State) -> None:
        with self._explained():
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=".leases-")
            temporary = Path(name)
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(_dump(state), file)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self._folder / STATE_FILE)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> LeaseStoreRefused:
        return LeaseStoreRefused(f"the lease folder {self._folder} cannot be used: {error.strerror or error}")


def _dump(state: _State) -> dict[str, Any]:
    now = time.time()
    return {
        "last_token": state.last_token,
        "names": {name: wanted and asdict(wanted) for name, wanted in state.names.items()},
        "leases": {
            name: {str(slot): asdict(held) for slot, held in slots.items() if held.until > now}
            for name, slots in state.leases.items()
            if slots
        },
    }


def _parse(content: dict[str, Any]) -> _State:
    return _State(
        last_token=int(content["last_token"]),
        names={name: None if wanted is None else DesiredState(**wanted) for name, wanted in content["names"].items()},
        leases={
            name: {int(slot): _Held(**held) for slot, held in slots.items()}
            for name, slots in content["leases"].items()
        },
    )
