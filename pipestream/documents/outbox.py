"""The outbox: references that are recorded with their documents, and wait until a relay has published them.

A row is written in the same transaction as the document's row in the catalogue. So there is a reference for every
recorded upload and none for any other, whatever crashes. Who publishes them is in ``relay.py``.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import class_row

from pipestream.errors import Overtaken

if TYPE_CHECKING:
    from pipestream.documents.tables import Connection, Tables

_COLUMNS = "id, account_id, datasource_id, doc_id, object_key, value, headers"
# A document that changed meanwhile stays pending. The rows are locked in the order that the catalogue locks them in, so
# that nobody waits for each other.
_TAKE_OUT = """WITH published AS (
        DELETE FROM outbox WHERE id = ANY(%s::bigint[]) RETURNING account_id, datasource_id, doc_id, object_key),
    due AS (
        SELECT account_id, datasource_id, doc_id FROM documents
        WHERE (account_id, datasource_id, doc_id, object_key) IN (SELECT * FROM published)
        ORDER BY account_id, datasource_id, doc_id FOR UPDATE)
    UPDATE documents SET published_at = now() FROM due
    WHERE (documents.account_id, documents.datasource_id, documents.doc_id)
        = (due.account_id, due.datasource_id, due.doc_id)"""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A reference to one version of a document, as the intake topic will have it."""

    account_id: str
    datasource_id: str
    doc_id: str
    object_key: str
    value: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Waiting(Announcement):
    """A reference in the outbox."""

    id: int


@dataclass(frozen=True, slots=True)
class Batch:
    """References that are published in one Kafka transaction, under a name that no other batch ever has."""

    batch_id: str
    waiting: Sequence[Waiting]


class LaneLost(Overtaken):
    """Another relay has taken over the outbox of a datasource."""

    def __init__(self, datasource_id: str) -> None:
        self.datasource_id = datasource_id
        super().__init__(f"another process has taken over the outbox of datasource {datasource_id}; repeat the upload")


def insert(connection: Connection, announcements: Sequence[Announcement]) -> dict[str, int]:
    """Put references into the outbox, within the caller's transaction; return their numbers by object key."""
    if not announcements:
        return {}
    # One parameter in JSON, as in the catalogue.
    given = [
        {
            "account_id": each.account_id,
            "datasource_id": each.datasource_id,
            "doc_id": each.doc_id,
            "object_key": each.object_key,
            "value": b64encode(each.value).decode(),
            "headers": dict(each.headers),
        }
        for each in announcements
    ]
    sql = """INSERT INTO outbox (account_id, datasource_id, doc_id, object_key, value, headers)
        SELECT account_id, datasource_id, doc_id, object_key, decode(value, 'base64'), headers
        FROM json_to_recordset(%s::json) AS given(account_id text, datasource_id text, doc_id text, object_key text,
            value text, headers jsonb)
        RETURNING object_key, id"""
    return dict(connection.execute(sql, (json.dumps(given),)).fetchall())


def find(connection: Connection, datasource_id: str, object_keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the references to these objects that wait, by object key."""
    if not object_keys:
        return {}
    sql = "SELECT object_key, max(id) FROM outbox WHERE datasource_id = %s AND object_key = ANY(%s) GROUP BY 1"
    return dict(connection.execute(sql, (datasource_id, list(object_keys))).fetchall())


class Outbox:
    """What relays need of the outbox."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def counts(self) -> dict[str, int]:
        """Return how many references wait, by datasource."""
        sql = "SELECT datasource_id, count(*) FROM outbox GROUP BY 1 ORDER BY 1"
        with self._tables.connection() as connection:
            return dict(connection.execute(sql).fetchall())

    def ids(self, datasource_id: str) -> list[int]:
        """Return the numbers of a datasource's references that wait, or that were not seen to be published."""
        sql = "SELECT id FROM outbox WHERE datasource_id = %s ORDER BY id"
        with self._tables.connection() as connection:
            return [row[0] for row in connection.execute(sql, (datasource_id,)).fetchall()]

    def which_wait(self, ids: Sequence[int]) -> set[int]:
        """Return those of some references that are still in the outbox."""
        with self._tables.connection() as connection:
            rows = connection.execute("SELECT id FROM outbox WHERE id = ANY(%s::bigint[])", (_array(ids),)).fetchall()
        return {row[0] for row in rows}

    @contextmanager
    def lock(self, datasource_id: str) -> Iterator[bool]:
        """Keep other relays of a datasource away for the block, if none is at work; say whether that is so.

        PostgreSQL frees the lock when its connection is gone. So it may be lost. It only keeps two processes from
        working against each other. The block may take any time: what waits is published in many batches.
        """
        name = hashlib.blake2b(f"outbox/{datasource_id}".encode(), digest_size=8).digest()
        sql = "SELECT pg_try_advisory_xact_lock(%s)"
        with self._tables.lasting_connection() as connection:
            with self._tables.limited(connection):
                found = connection.execute(sql, (int.from_bytes(name, signed=True),)).fetchone()
            try:
                yield found is not None and bool(found[0])
            finally:
                with suppress(psycopg.Error), self._tables.limited(connection):
                    connection.rollback()

    def take_over(self, datasource_id: str) -> tuple[int, Batch | None]:
        """Take a datasource's lane from whoever had it; return our token, and the batch that was claimed last, if any.

        From now on ``claim`` and ``settle`` with an older token fail.
        """
        sql = """INSERT INTO outbox_lanes AS lane (datasource_id, token) VALUES (%s, 1)
            ON CONFLICT (datasource_id) DO UPDATE SET token = lane.token + 1 RETURNING token, batch_id, claimed"""
        with self._tables.connection() as connection, connection.transaction():
            found = connection.execute(sql, (datasource_id,)).fetchone()
            assert found is not None
            token, batch_id, claimed = found
            if batch_id is None:
                return token, None
            return token, Batch(batch_id, _read(connection, "id = ANY(%s)", (claimed,)))

    def claim(self, datasource_id: str, token: int, batch_id: str, limit: int) -> Batch:
        """Return the references that wait longest as one batch, and note that they are about to be published.

        The rows are noted by their numbers, because one with a smaller number may be committed later.

        :raises LaneLost: another relay has taken over.
        """
        with self._tables.connection() as connection, connection.transaction():
            waiting = _read(connection, "datasource_id = %s ORDER BY id LIMIT %s", (datasource_id, limit))
            if waiting:
                noted = connection.execute(
                    """UPDATE outbox_lanes SET batch_id = %s, claimed = %s::bigint[]
                    WHERE datasource_id = %s AND token = %s""",
                    (batch_id, _array(each.id for each in waiting), datasource_id, token),
                )
                if noted.rowcount != 1:
                    raise LaneLost(datasource_id)
        return Batch(batch_id, waiting)

    def settle(self, datasource_id: str, token: int, batch: Batch) -> None:
        """Take a batch that Kafka has out of the outbox, and note in the catalogue that it is published.

        :raises LaneLost: another relay has taken over, and settles it.
        """
        with self._tables.connection() as connection, connection.transaction():
            noted = connection.execute(
                """UPDATE outbox_lanes SET batch_id = NULL, claimed = '{}'
                WHERE datasource_id = %s AND token = %s AND batch_id = %s""",
                (datasource_id, token, batch.batch_id),
            )
            if noted.rowcount != 1:
                raise LaneLost(datasource_id)
            connection.execute(_TAKE_OUT, (_array(each.id for each in batch.waiting),))


def _read(connection: Connection, condition: str, parameters: tuple[Any, ...]) -> list[Waiting]:
    sql = f"SELECT {_COLUMNS} FROM outbox WHERE {condition}"  # noqa: S608 - constants of this module
    with connection.cursor(row_factory=class_row(Waiting)) as cursor:
        return sorted(cursor.execute(sql, parameters).fetchall(), key=lambda each: each.id)


def _array(ids: Iterable[int]) -> str:
    """Return numbers as PostgreSQL writes an array. The client would turn a list into one item by item."""
    return f"{{{','.join(map(str, ids))}}}"
