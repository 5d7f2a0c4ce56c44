"""The catalogue: which documents there are, in which version, and whether their reference is published."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.rows import class_row
from psycopg_pool import ConnectionPool, PoolTimeout

from pipestream.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pipestream.settings import Settings

log = logging.getLogger(__name__)

Outcome = Literal["new", "changed", "unchanged"]

# Any constant of our own: processes that make the table at the same time must not get in each other's way.
_SCHEMA_LOCK = 7_346_210_554_201
_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    account_id    text        NOT NULL,
    datasource_id text        NOT NULL,
    doc_id        text        NOT NULL,
    object_key    text        NOT NULL,
    checksum      text        NOT NULL,
    size_bytes    bigint      NOT NULL,
    mime_type     text        NOT NULL,
    title         text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz,
    version       integer     NOT NULL DEFAULT 1,
    PRIMARY KEY (account_id, datasource_id, doc_id)
);
CREATE INDEX IF NOT EXISTS documents_pending ON documents (account_id, datasource_id, doc_id)
    WHERE published_at IS NULL;
"""
_COLUMNS = """account_id, datasource_id, doc_id, object_key, checksum, size_bytes, mime_type, title,
    created_at, updated_at, published_at, version"""
_CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Row:
    """What is to be known of one stored document."""

    account_id: str
    datasource_id: str
    doc_id: str
    object_key: str
    checksum: str
    size_bytes: int
    mime_type: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Catalogued(Row):
    """A row as the catalogue has it."""

    created_at: datetime | None = None
    updated_at: datetime | None = None
    published_at: datetime | None = None
    """When Kafka confirmed the reference to this version; None means that it is still to be published."""
    version: int = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """A row as it is now, and what recording it changed."""

    row: Catalogued
    outcome: Outcome


class Catalogue:
    """The table of documents in PostgreSQL, made on first use. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._pool = ConnectionPool(
            settings.postgres_dsn.get_secret_value(),
            min_size=0,
            max_size=4,
            open=False,
            timeout=_CONNECT_TIMEOUT_S,
            reconnect_timeout=_CONNECT_TIMEOUT_S,
            kwargs={"connect_timeout": _CONNECT_TIMEOUT_S, "options": "-c statement_timeout=30000"},
        )
        self._ready = False

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connections."""
        self._pool.close()

    def record(self, rows: Sequence[Row]) -> list[Recorded]:
        """Enter documents, in one transaction, and say of each whether it is new, changed or the same.

        A changed document gets the next version and is to be published again. No document may appear twice.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        if not rows:
            return []
        # In one order for everybody, or two transactions could wait for each other's rows.
        ordered = sorted(rows, key=lambda row: (row.account_id, row.datasource_id, row.doc_id))
        with self._connection() as connection, connection.transaction():
            new = self._insert(connection, ordered)
            known = self._lock(connection, ordered)
            changed = [row for row in ordered if known[_key(row)].checksum != row.checksum]
            self._update(connection, changed)
            current = self._lock(connection, ordered) if changed else known
        changed_keys = {_key(row) for row in changed}
        recorded = []
        for row in rows:
            key = _key(row)
            outcome: Outcome = "new" if key in new else "changed" if key in changed_keys else "unchanged"
            recorded.append(Recorded(current[key], outcome))
        return recorded

    def find(self, account_id: str, datasource_id: str, doc_id: str) -> Catalogued | None:
        """Return a document's row, if there is one.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = f"SELECT {_COLUMNS} FROM documents WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"  # noqa: S608
        with self._connection() as connection, connection.cursor(row_factory=class_row(Catalogued)) as cursor:
            return cursor.execute(sql, (account_id, datasource_id, doc_id)).fetchone()

    def list(
        self,
        account_id: str,
        datasource_id: str,
        *,
        after: str = "",
        limit: int = 1_000,
        pending: bool = False,
    ) -> Sequence[Catalogued]:
        """Return up to ``limit`` documents of a datasource, in the order of their ids, after ``after``.

        :param pending: only those whose reference is still to be published.
        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = (
            f"SELECT {_COLUMNS} FROM documents WHERE account_id = %s AND datasource_id = %s AND doc_id > %s "  # noqa: S608
            f"{'AND published_at IS NULL' if pending else ''} ORDER BY doc_id LIMIT %s"
        )
        with self._connection() as connection, connection.cursor(row_factory=class_row(Catalogued)) as cursor:
            return cursor.execute(sql, (account_id, datasource_id, after, limit)).fetchall()

    def mark_published(self, rows: Sequence[Row]) -> None:
        """Note that Kafka has the references to these versions; a row that changed meanwhile stays pending.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = """UPDATE documents SET published_at = now()
            WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s) AND checksum = %s"""
        ordered = sorted((*_key(row), row.checksum) for row in rows)
        with self._connection() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(sql, ordered)

    def forget(self, account_id: str, datasource_id: str, doc_id: str, object_key: str) -> bool:
        """Remove a document's row if it names this object; return False where its reference is still to be published.

        A row that names another object is of a newer version, and stays.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        place = (account_id, datasource_id, doc_id, object_key)
        with self._connection() as connection, connection.transaction():
            connection.execute(
                """DELETE FROM documents WHERE (account_id, datasource_id, doc_id, object_key) = (%s, %s, %s, %s)
                AND published_at IS NOT NULL""",
                place,
            )
            pending = connection.execute(
                """SELECT 1 FROM documents
                WHERE (account_id, datasource_id, doc_id, object_key) = (%s, %s, %s, %s)""",
                place,
            ).fetchone()
        return pending is None

    def remove(self, account_id: str, datasource_id: str, doc_id: str) -> bool:
        """Remove a document's row, whatever its state; return whether there was one.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = "DELETE FROM documents WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"
        with self._connection() as connection, connection.transaction():
            return connection.execute(sql, (account_id, datasource_id, doc_id)).rowcount > 0

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            self._pool.open()
            with self._pool.connection() as connection:
                if not self._ready:
                    with connection.transaction():
                        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                        connection.execute(_SCHEMA)
                    self._ready = True
                yield connection
        except PoolTimeout:
            # The pool's own message may hold the connection string, and the string a password.
            raise DatabaseUnavailable(
                f"PostgreSQL did not accept a connection within {_CONNECT_TIMEOUT_S} s; "
                f"check that it runs and that PIPESTREAM_POSTGRES_DSN is right"
            ) from None
        except psycopg.Error as error:
            raise DatabaseUnavailable(f"PostgreSQL: {_public_message(error)}") from None

    def _insert(self, connection: psycopg.Connection[Any], rows: Sequence[Row]) -> set[tuple[str, ...]]:
        sql = """INSERT INTO documents
                (account_id, datasource_id, doc_id, object_key, checksum, size_bytes, mime_type, title)
            SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
                %s::bigint[], %s::text[], %s::text[])
            ON CONFLICT DO NOTHING RETURNING account_id, datasource_id, doc_id"""
        return set(connection.execute(sql, _columns(rows)).fetchall())

    def _lock(self, connection: psycopg.Connection[Any], rows: Sequence[Row]) -> dict[tuple[str, ...], Catalogued]:
        sql = (
            f"SELECT {_COLUMNS} FROM documents WHERE (account_id, datasource_id, doc_id) IN "  # noqa: S608
            "(SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])) "
            "ORDER BY account_id, datasource_id, doc_id FOR UPDATE"
        )
        with connection.cursor(row_factory=class_row(Catalogued)) as cursor:
            return {_key(row): row for row in cursor.execute(sql, _columns(rows)[:3])}

    def _update(self, connection: psycopg.Connection[Any], rows: Sequence[Row]) -> None:
        sql = """UPDATE documents SET object_key = %s, checksum = %s, size_bytes = %s, mime_type = %s,
                title = %s, version = version + 1, updated_at = now(), published_at = NULL
            WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"""
        with connection.cursor() as cursor:
            cursor.executemany(
                sql,
                [(row.object_key, row.checksum, row.size_bytes, row.mime_type, row.title, *_key(row)) for row in rows],
            )


def _key(row: Row) -> tuple[str, str, str]:
    return row.account_id, row.datasource_id, row.doc_id


def _columns(rows: Sequence[Row]) -> list[list[Any]]:
    names = (
        "account_id",
        "datasource_id",
        "doc_id",
        "object_key",
        "checksum",
        "size_bytes",
        "mime_type",
        "title",
    )
    return [[getattr(row, name) for row in rows] for name in names]


def _public_message(error: psycopg.Error) -> str:
    """What the server said, which never holds our connection string; else only the kind of error."""
    return error.diag.message_primary or type(error).__name__
