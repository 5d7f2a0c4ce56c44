"""Leases in Consul: a session per lease, and its lock on the slot's key.

What Consul's rules mean here:

* A session's TTL is at least 10 s, and Consul ends it after twice its TTL without renewal. A shorter TTL is raised
  to 10 s, and ``Lease.ttl_s`` says so.
* Sessions end with behaviour *release*: the lock goes, the key stays, so a crash never erases a registration.
* The lock delay is 0. It exists to give a stale holder time to notice; here a stale holder is harmless
  (the ledger refuses its ranges and the producer fences it), so waiting would only slow the takeover.
* The fencing token is the ModifyIndex of the acquisition. It is a Raft index, so it grows over all keys and
  also when a key is deleted and made again, which the per-key LockIndex does not survive.
* A write of an equal value does not move ModifyIndex, so every write has the session's id or the time in it.
* Consul does not tell when a session was last renewed, so its holder writes that down, and ``Assignment.until`` is
  two TTLs later, by the holder's clock. It has a key of its own: a write to the lock's key would move the token, and
  wake up everyone who waits for the slot.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from consul.exceptions import NotFound

from pipestream.errors import (
    DesiredStateInvalid,
    LeaseLost,
    LeaseStoreUnavailable,
    LeaseUnavailable,
    PipestreamError,
)
from pipestream.leases import keys
from pipestream.leases.consul_client import connect, explain_errors
from pipestream.leases.names import is_backfill_lease, leased_topic
from pipestream.leases.store import EXPIRY_SLACK_S, Assignment, DesiredState, Lease, TopicMode, check_request, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.settings import Settings

log = logging.getLogger(__name__)

MIN_TTL_S = 10
# After how many TTLs without renewal Consul ends a session: fixed in its code.
EXPIRY_TTLS = 2
LOCK_DELAY_S = 0
# A lock that is refused although nobody holds it was let go in between, or is in another client's lock delay.
ACQUIRE_TRIES = 3
CAS_TRIES = 10


class ConsulLeaseStore:
    """Leases, registrations and desired states in Consul's key-value store."""

    def __init__(self, settings: Settings) -> None:
        self._address = settings.consul_address
        self._consul = connect(settings)

    def register(self, names: Sequence[str]) -> None:
        wanted = {keys.name_key(name) for name in names}
        with explain_errors(self._address):
            known = {key for folder in keys.FOLDERS for key in self._keys(folder)} if len(wanted) > 1 else set()
            for key in sorted(wanted - known):
                # cas=0 writes only what is not there: a holder's value must not be overwritten.
                self._consul.kv.put(key, _dump(registered_at=_now()), cas=0)

    def unregister(self, names: Sequence[str]) -> None:
        for name in names:
            key, renewals = keys.name_key(name), keys.renewals_folder(name)
            with explain_errors(self._address):
                # A recursive delete takes a prefix, and `main.chunk` is one of `main.chunker`: so what is below the key
                # goes, and the lanes of a topic, which have its name and an @.
                for prefix in (key + "/", key + "@", renewals, renewals.removesuffix("/") + "@"):
                    self._consul.kv.delete(prefix, recurse=True)
                self._consul.kv.delete(key)
                self._consul.kv.delete(keys.desired_key(name))

    def topics(self) -> list[str]:
        with explain_errors(self._address):
            found = [key for folder in keys.FOLDERS for key in self._keys(folder)]
        parsed = [keys.parse_slot_key(key) for key in found]
        names = (name for name, slot in filter(None, parsed) if slot == 0)
        return sorted({leased_topic(name) for name in names if not is_backfill_lease(name)})

    def desired(self, topic: str) -> DesiredState:
        entry = self._get(keys.desired_key(topic))
        return DesiredState() if entry is None else _parse_desired(entry)

    def set_desired(self, topic: str, state: DesiredState) -> None:
        key = keys.desired_key(topic)
        self.register([topic])
        for _ in range(CAS_TRIES):
            entry = self._get(key)
            value = _dump(started=state.started, replicas=state.replicas, mode=state.mode, updated_at=_now())
            with explain_errors(self._address):
                if self._consul.kv.put(key, value, cas=entry["ModifyIndex"] if entry else 0):
                    return
        raise LeaseStoreUnavailable(f"{key} was changed by others {CAS_TRIES} times in a row; try again")

    def acquire(self, name: str, slot: int, holder: str, ttl_s: float) -> Lease:
        check_request(slot, holder, ttl_s)
        keys.name_key(name)  # refuses a name before it leaves a session behind
        if slot > 0:
            self.register([name])  # the lock of slot 0 makes the key by itself
        effective_ttl_s = _effective_ttl_s(ttl_s)
        with explain_errors(self._address):
            session = self._consul.session.create(
                name=holder, lock_delay=LOCK_DELAY_S, behavior="release", ttl=effective_ttl_s
            )
        try:
            value = _dump(holder=holder, acquired_at=_now(), ttl_s=effective_ttl_s, session=session)
            token = self._lock(name, slot, value, session)
        except BaseException:
            self._end_session(session)
            raise
        return Lease(name, slot, holder, token, float(effective_ttl_s), session)

    def renew(self, lease: Lease) -> None:
        try:
            with explain_errors(self._address):
                self._consul.session.renew(lease.handle)
        except NotFound:
            raise LeaseLost(lease.name, lease.slot, "its Consul session ended; it was not renewed in time") from None
        # The session may outlive the lock: an unregistered topic's key is gone, and so is the lock on it.
        entry = self._get(keys.slot_key(lease.name, lease.slot))
        if entry is None:
            raise LeaseLost(lease.name, lease.slot, "the topic was unregistered")
        if entry.get("Session") != lease.handle:
            holder = _holder(entry)
            raise LeaseLost(lease.name, lease.slot, f"{holder} holds it now" if holder else "the lock was taken off")
        self._note_renewal(lease)

    def release(self, lease: Lease) -> None:
        key = keys.slot_key(lease.name, lease.slot)
        value = _dump(released_by=lease.holder, released_at=_now(), session=lease.handle)
        try:
            with explain_errors(self._address):
                self._consul.kv.put(key, value, release=lease.handle)  # refused, and harmless, unless it is ours
        finally:
            self._end_session(lease.handle)

    def longest_expiry_s(self, ttl_s: float) -> float:
        return EXPIRY_TTLS * _effective_ttl_s(ttl_s) + EXPIRY_SLACK_S

    def wait_free(self, name: str, slot: int, timeout_s: float) -> bool:
        key = keys.slot_key(name, slot)
        deadline = time.monotonic() + timeout_s
        index = 0
        while True:
            left_s = deadline - time.monotonic()
            # The first query answers at once, the others when the key changes. A wait of 0 means 5 minutes, and one
            # that is rounded down ends before the deadline, only to be asked once more.
            wait = f"{max(1, math.ceil(left_s * 1000))}ms"
            with explain_errors(self._address):
                seen, entry = self._consul.kv.get(key, index=index or None, wait=wait)
            if entry is None or "Session" not in entry:
                return True
            if time.monotonic() >= deadline:
                return False
            # An index that went back (a restored server) means: start over.
            index = int(seen) if int(seen) >= index else 0

    def assignments(self, name: str | None = None) -> list[Assignment]:
        prefixes = [keys.ROOT]
        if name is not None:
            # Of the topic, whose desired state holds for all its lanes. What else begins like this is left out below.
            topic = leased_topic(name)
            prefixes = [keys.name_key(topic), keys.desired_key(topic), keys.renewals_folder(topic).removesuffix("/")]
        entries = [entry for prefix in prefixes for entry in self._entries(prefix)]
        renewals = {entry["Key"]: entry for entry in entries if entry["Key"].startswith(keys.RENEWALS)}
        replicas: dict[str, int] = {}
        held = []
        for entry in entries:
            place = keys.parse_slot_key(entry["Key"])
            if place is None:
                continue
            if place[1] == 0:
                replicas.setdefault(place[0], 1)
            if "Session" in entry:
                until = _until(entry, renewals.get(keys.renewal_key(*place)))
                held.append(Assignment(*place, _holder(entry), entry["ModifyIndex"], until))
        topics = {leased_topic(each) for each in replicas}
        for entry in entries:
            key = entry["Key"]
            if key.startswith(keys.DESIRED) and (wanted := key.removeprefix(keys.DESIRED)) in topics:
                replicas[wanted] = _parse_desired(entry).replicas
        return lay_out(replicas, held, name)

    def close(self) -> None:
        self._consul.http.session.close()  # py-consul's own close() does nothing

    def _lock(self, name: str, slot: int, value: str, session: str) -> int:
        """Lock a slot's key for a session and return the fencing token."""
        key = keys.slot_key(name, slot)
        last_holder = ""
        for _ in range(ACQUIRE_TRIES):
            with explain_errors(self._address):
                locked = self._consul.kv.put(key, value, acquire=session)
            entry = self._get(key)
            if locked and entry is not None and entry.get("Session") == session:
                return int(entry["ModifyIndex"])
            if entry is not None and (current := _holder(entry)):
                raise LeaseUnavailable(name, slot, current)
            last_holder = _last_holder(entry) or last_holder
        raise LeaseUnavailable(name, slot, f"nobody, but Consul still delays its lock (last: {last_holder or '?'})")

    def _note_renewal(self, lease: Lease) -> None:
        """Write down when a lease was renewed, for those who ask until when it is held."""
        value = _dump(renewed_at=_now(), ttl_s=lease.ttl_s, session=lease.handle)
        try:
            with explain_errors(self._address):
                # Locked as well: a holder that lost the slot unawares must not write over the next one's.
                self._consul.kv.put(keys.renewal_key(lease.name, lease.slot), value, acquire=lease.handle)
        except PipestreamError as error:  # the lease is renewed all the same
            log.warning("%s slot %d: renewed, but `until` will not show it: %s", lease.name, lease.slot, error)

    def _end_session(self, session: str) -> None:
        """End a session, or leave it to its TTL if Consul does not answer."""
        try:
            with explain_errors(self._address):
                self._consul.session.destroy(session)
        except PipestreamError as error:
            log.warning("Consul session %s is left to run out by itself: %s", session, error)

    def _get(self, key: str) -> dict[str, Any] | None:
        with explain_errors(self._address):
            _, entry = self._consul.kv.get(key)
        found: dict[str, Any] | None = entry
        return found

    def _entries(self, prefix: str) -> list[dict[str, Any]]:
        with explain_errors(self._address):
            _, entries = self._consul.kv.get(prefix, recurse=True)
        return entries or []

    def _keys(self, folder: str) -> list[str]:
        """Return the keys of a folder, without those of its folders."""
        _, found = self._consul.kv.get(folder, keys=True, separator="/")
        return [key for key in found or [] if not key.endswith("/")]


def _effective_ttl_s(ttl_s: float) -> int:
    return max(MIN_TTL_S, math.ceil(ttl_s))


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _dump(**fields: object) -> str:
    return json.dumps(fields)


def _load(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a value; none for a value that is not ours (a bare registration is empty)."""
    with contextlib.suppress(ValueError):
        fields = json.loads(entry["Value"] or b"{}")
        if isinstance(fields, dict):
            return fields
    return {}


def _holder(entry: dict[str, Any]) -> str:
    """Return who holds a key's lock; empty if nobody does."""
    session = entry.get("Session")
    if not session:
        return ""
    fields = _load(entry)
    # A lock by another kind of client has no holder that we could name.
    holder = fields.get("holder") if fields.get("session") == session else None
    return str(holder) if holder else f"Consul session {session}"


def _until(entry: dict[str, Any], renewal: dict[str, Any] | None) -> datetime | None:
    """Return when Consul ends the session that holds a key, if its holder wrote down what that takes."""
    for found, moment in ((renewal, "renewed_at"), (entry, "acquired_at")):
        fields = _load(found) if found else {}
        if fields.get("session") == entry["Session"]:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                return datetime.fromisoformat(fields[moment]) + timedelta(seconds=EXPIRY_TTLS * fields["ttl_s"])
    return None


def _last_holder(entry: dict[str, Any] | None) -> str:
    return str(_load(entry).get("holder", "")) if entry else ""


def _parse_desired(entry: dict[str, Any]) -> DesiredState:
    fields = _load(entry)
    match fields:
        case {"started": bool(started), "replicas": int(replicas)} if replicas >= 1:
            with contextlib.suppress(ValueError):
                # An earlier version wrote no mode.
                return DesiredState(started, replicas, fields.get("mode", TopicMode.BATCH))
    raise DesiredStateInvalid(
        f"Consul key {entry['Key']} is not a desired state; delete it, or write there a value such as "
        f'{{"started": true, "replicas": 1, "mode": "batch"}}'
    )
