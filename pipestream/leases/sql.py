"""Leases in PostgreSQL: a row per held slot, with the time when it runs out.

The tables and columns keep the names of the architecture they come from, so its queries still work: a topic
is a ``pipeline_id``, a holder a ``worker_id``. Added are the fencing token and what goes with it.
All times are the database's, so clocks of workers do not matter.
"""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pipestream.database import Connection, Database
from pipestream.errors import LeaseLost, LeaseUnavailable
from pipestream.leases.names import check_leased, is_backfill_lease, leased_topic
from pipestream.leases.store import EXPIRY_SLACK_S, Assignment, DesiredState, Lease, check_request, lay_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipestream.settings import Settings

Result = TypeVar("Result")

CHANNEL = "pipestream_leases"

# Any number will do, as long as nothing else in the database locks the same.
SCHEMA_LOCK = 7_402_113_905

SCHEMA = """
CREATE TABLE IF NOT EXISTS pipeline_state (
    pipeline_id text PRIMARY KEY,
    desired text NOT NULL DEFAULT 'started' CHECK (desired IN ('started', 'stopped')),
    replicas integer NOT NULL DEFAULT 1 CHECK (replicas BETWEEN 1 AND 10000),
    updated_at timestamptz NOT NULL DEFAULT now()
);
-- Apart from the others: earlier versions made the table without it, and their topics are in batch mode.
ALTER TABLE pipeline_state ADD COLUMN IF NOT EXISTS
    mode text NOT NULL DEFAULT 'batch' CHECK (mode IN ('batch', 'streaming'));
CREATE TABLE IF NOT EXISTS leases (
    pipeline_id text NOT NULL,
    slot integer NOT NULL CHECK (slot >= 0),
    worker_id text NOT NULL,
    lease_until timestamptz NOT NULL,
    token bigint NOT NULL,
    handle text NOT NULL,
    acquired_at timestamptz NOT NULL,
    PRIMARY KEY (pipeline_id, slot)
);
-- Not a column of the lease: it must keep growing when rows, or the whole topic, are deleted and made again.
CREATE SEQUENCE IF NOT EXISTS lease_tokens;
"""

HAS_SCHEMA = """
SELECT to_regclass('lease_tokens') IS NOT NULL AND EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('pipeline_state') AND attname = 'mode'
)
"""

REGISTER = "INSERT INTO pipeline_state (pipeline_id) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"

# Takes a slot that is free, that ran out, or that this very attempt took already (its answer was lost).
ACQUIRE = """
INSERT INTO leases AS held (pipeline_id, slot, worker_id, lease_until, token, handle, acquired_at)
VALUES (%(name)s, %(slot)s, %(holder)s, clock_timestamp() + %(ttl)s, nextval('lease_tokens'), %(handle)s,
        clock_timestamp())
ON CONFLICT (pipeline_id, slot) DO UPDATE
SET worker_id = excluded.worker_id, lease_until = excluded.lease_until, token = excluded.token,
    handle = excluded.handle, acquired_at = excluded.acquired_at
WHERE held.lease_until <= clock_timestamp() OR held.handle = excluded.handle
RETURNING token
"""

RENEW = """
UPDATE leases SET lease_until = clock_timestamp() + %(ttl)s
WHERE pipeline_id = %(name)s AND slot = %(slot)s AND worker_id = %(holder)s AND token = %(token)s
  AND lease_until > clock_timestamp()
"""

RELEASE = """
DELETE FROM leases
WHERE pipeline_id = %(name)s AND slot = %(slot)s AND worker_id = %(holder)s AND token = %(token)s
"""


class SqlLeaseStore:
    """Leases, registrations and desired states in PostgreSQL; makes its tables when first used."""

    def __init__(self, settings: Settings) -> None:
        self._database = Database(settings.postgres_dsn)
        self._has_schema = False

    def register(self, names: Sequence[str]) -> None:
        # Sorted, so that two that register the same names take their rows in the same order.
        checked = sorted({check_leased(name) for name in names})
        self._run(lambda c: c.execute(REGISTER, (checked,)))

    def unregister(self, names: Sequence[str]) -> None:
        checked = [check_leased(name) for name in names]

        def forget(connection: Connection) -> None:
            for table in ("leases", "pipeline_state"):
                # A topic's name is given for all its lanes too.
                connection.execute(
                    f"DELETE FROM {table} WHERE pipeline_id = ANY(%(names)s)"  # noqa: S608 - a name of ours
                    " OR split_part(pipeline_id, '@', 1) = ANY(%(names)s)",
                    {"names": checked},
                )
            connection.execute(f"NOTIFY {CHANNEL}")

        self._run(forget)

    def topics(self) -> list[str]:
        rows = self._run(lambda c: c.execute("SELECT pipeline_id FROM pipeline_state").fetchall())
        return sorted({leased_topic(name) for (name,) in rows if not is_backfill_lease(name)})

    def desired(self, topic: str) -> DesiredState:
        query = "SELECT desired = 'started', replicas, mode FROM pipeline_state WHERE pipeline_id = %s"
        row = self._run(lambda c: c.execute(query, (check_leased(topic),)).fetchone())
        return DesiredState(*row) if row else DesiredState()

    def desired_many(self, topics: Sequence[str]) -> dict[str, DesiredState]:
        """Return what the operator wants of topics, from one statement: a page asks about hundreds."""
        query = """
            SELECT pipeline_id, desired = 'started', replicas, mode FROM pipeline_state WHERE pipeline_id = ANY(%s)
        """
        checked = [check_leased(topic) for topic in topics]
        rows = self._run(lambda c: c.execute(query, (checked,)).fetchall())
        found = {topic: DesiredState(*values) for topic, *values in rows}
        return {topic: found.get(topic, DesiredState()) for topic in checked}

    def set_desired(self, topic: str, state: DesiredState) -> None:
        statement = """
            INSERT INTO pipeline_state (pipeline_id, desired, replicas, mode) VALUES (%s, %s, %s, %s)
            ON CONFLICT (pipeline_id) DO UPDATE
            SET desired = excluded.desired, replicas = excluded.replicas, mode = excluded.mode, updated_at = now()
        """
        values = (check_leased(topic), "started" if state.started else "stopped", state.replicas, state.mode.value)
        self._run(lambda c: c.execute(statement, values))

    def acquire(self, name: str, slot: int, holder: str, ttl_s: float) -> Lease:
        check_request(slot, holder, ttl_s)
        check_leased(name)
        handle = str(uuid.uuid4())
        values = {
            "name": name,
            "slot": slot,
            "holder": holder,
            "ttl": timedelta(seconds=ttl_s),
            "handle": handle,
        }

        def take(connection: Connection) -> int | str:
            """Return the token, or else the name of the holder."""
            connection.execute(REGISTER, ([name],))
            won = connection.execute(ACQUIRE, values).fetchone()
            if won:
                return int(won[0])
            query = "SELECT worker_id FROM leases WHERE pipeline_id = %(name)s AND slot = %(slot)s"
            row = connection.execute(query, values).fetchone()
            return str(row[0]) if row else "a holder that has just left"

        answer = self._run(take, serializable=True)
        if isinstance(answer, str):
            raise LeaseUnavailable(name, slot, answer)
        return Lease(name, slot, holder, answer, ttl_s, handle)

    def renew(self, lease: Lease) -> None:
        def extend(connection: Connection) -> str:
            """Return why the lease is lost; nothing if it is not."""
            if connection.execute(RENEW, _values(lease)).rowcount:
                return ""
            holder = _find_holder(connection, lease.name, lease.slot)
            return f"{holder} holds it now" if holder else "it ran out, or the topic was unregistered"

        reason = self._run(extend)
        if reason:
            raise LeaseLost(lease.name, lease.slot, reason)

    def release(self, lease: Lease) -> None:
        def give_back(connection: Connection) -> None:
            if connection.execute(RELEASE, _values(lease)).rowcount:
                connection.execute(f"NOTIFY {CHANNEL}")

        self._run(give_back)

    def longest_expiry_s(self, ttl_s: float) -> float:
        return ttl_s + EXPIRY_SLACK_S

    def wait_free(self, name: str, slot: int, timeout_s: float) -> bool:
        """Wait for a release to be notified, or for the lease to run out.

        Takes a connection of its own: the shared one must stay free for renewals.
        """
        check_leased(name)
        self._run(lambda _: None)  # makes the tables
        deadline = time.monotonic() + timeout_s
        query = """
            SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM leases
            WHERE pipeline_id = %s AND slot = %s AND lease_until > clock_timestamp()
        """
        with self._database.connection() as connection:
            with self._database.limited(connection):
                connection.execute(f"LISTEN {CHANNEL}")  # before the first look, or a release between is missed
            while True:
                with self._database.limited(connection):
                    row = connection.execute(query, (name, slot)).fetchone()
                if row is None:
                    return True
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                for _ in connection.notifies(timeout=min(left_s, row[0]), stop_after=1):
                    pass

    def assignments(self, name: str | None = None) -> list[Assignment]:
        states = """
            SELECT pipeline_id, replicas FROM pipeline_state
            WHERE %(topic)s::text IS NULL OR split_part(pipeline_id, '@', 1) = %(topic)s
        """
        leases = """
            SELECT pipeline_id, slot, worker_id, token, lease_until FROM leases
            WHERE lease_until > clock_timestamp()
              AND (%(topic)s::text IS NULL OR split_part(pipeline_id, '@', 1) = %(topic)s)
        """
        # The row of the topic has the replicas of its lanes.
        values = {"topic": None if name is None else leased_topic(check_leased(name))}
        replicas, held = self._run(
            lambda c: (c.execute(states, values).fetchall(), c.execute(leases, values).fetchall())
        )
        return lay_out(dict(replicas), [Assignment(*row) for row in held], name)

    def close(self) -> None:
        self._database.close()

    def _run(self, work: Callable[[Connection], Result], *, serializable: bool = False) -> Result:
        if not self._has_schema:
            self._database.run(_make_schema)
            self._has_schema = True
        return self._database.run(work, serializable=serializable)


def _make_schema(connection: Connection) -> None:
    row = connection.execute(HAS_SCHEMA).fetchone()
    if row and row[0]:
        return  # made in one transaction with the rest; so a role that may not create can still work
    # IF NOT EXISTS alone does not bear two starting at once: the second fails on a catalogue's unique index.
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
    connection.execute(SCHEMA)


def _values(lease: Lease) -> dict[str, Any]:
    return {
        "name": lease.name,
        "slot": lease.slot,
        "holder": lease.holder,
        "token": lease.token,
        "ttl": timedelta(seconds=lease.ttl_s),
    }


def _find_holder(connection: Connection, name: str, slot: int) -> str:
    query = """
        SELECT worker_id FROM leases WHERE pipeline_id = %s AND slot = %s AND lease_until > clock_timestamp()
    """
    row = connection.execute(query, (name, slot)).fetchone()
    return str(row[0]) if row else ""
