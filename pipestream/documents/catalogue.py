"""The catalogue: which documents there are, in which version, and whether their reference is published."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from pipestream.documents import outbox
from pipestream.documents.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pipestream.documents.tables import Connection
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

Outcome = Literal["new", "changed", "unchanged"]

_COLUMNS = """account_id, datasource_id, doc_id, object_key, checksum, size_bytes, mime_type, title,
    connector_id, document_type, metadata, created_at, updated_at, published_at, version"""


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
    connector_id: str = ""
    document_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


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
    waiting_id: int | None = None
    """The number of the reference to it that waits in the outbox."""


Announce = Callable[[Catalogued], outbox.Announcement]


class Catalogue:
    """The table of documents in PostgreSQL, made on first use. Safe to use from several threads."""

    def __init__(self, settings: Settings, tables: Tables | None = None) -> None:
        self._tables = tables or Tables(settings)

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connections."""
        self._tables.close()

    def record(
        self, rows: Sequence[Row], announce: Announce | None = None, *, force: bool = False
    ) -> Sequence[Recorded]:
        """Enter documents, in one transaction, and say of each whether it is new, changed or the same.

        A changed document gets the next version and is to be published again. No document may appear twice.

        :param announce: makes the reference to a document. References to what is not published yet are put into the
            outbox in the same transaction, unless they are there already. Without it, nothing is.
        :param force: put references into the outbox also to what is published already.
        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        if not rows:
            return []
        # In one order for everybody, or two transactions could wait for each other's rows.
        ordered = sorted(rows, key=_key)
        with self._tables.connection() as connection, connection.transaction():
            new, known = self._insert_and_lock(connection, ordered)
            changed = [row for row in ordered if known[_key(row)].checksum != row.checksum]
            self._update(connection, changed)
            current = self._lock(connection, ordered) if changed else known
            changed_keys = {_key(row) for row in changed}
            is_fresh = new | changed_keys
            fresh = [row for key, row in current.items() if key in is_fresh]
            rest = [row for key, row in current.items() if key not in is_fresh and (force or row.published_at is None)]
            waiting = _announce(connection, fresh, rest, announce) if announce else {}
        recorded = []
        for row in rows:
            key = _key(row)
            outcome: Outcome = "new" if key in new else "changed" if key in changed_keys else "unchanged"
            recorded.append(Recorded(current[key], outcome, waiting.get(current[key].object_key)))
        return recorded

    def announce_pending(self, account_id: str, datasource_id: str, announce: Announce) -> int:
        """Put references into the outbox to documents that are neither published nor there; return how many.

        A version before the outbox recorded such documents.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = (
            f"SELECT {_COLUMNS} FROM documents WHERE account_id = %s AND datasource_id = %s "  # noqa: S608
            "AND published_at IS NULL AND NOT EXISTS (SELECT FROM outbox "
            "WHERE outbox.datasource_id = documents.datasource_id AND outbox.object_key = documents.object_key) "
            "ORDER BY account_id, datasource_id, doc_id FOR UPDATE"
        )
        with self._tables.connection() as connection, connection.transaction():
            with connection.cursor(row_factory=class_row(Catalogued)) as cursor:
                rows = cursor.execute(sql, (account_id, datasource_id)).fetchall()
            return len(outbox.insert(connection, [announce(row) for row in rows]))

    def find(self, account_id: str, datasource_id: str, doc_id: str) -> Catalogued | None:
        """Return a document's row, if there is one.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = f"SELECT {_COLUMNS} FROM documents WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"  # noqa: S608
        with self._tables.connection() as connection, connection.cursor(row_factory=class_row(Catalogued)) as cursor:
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
        with self._tables.connection() as connection, connection.cursor(row_factory=class_row(Catalogued)) as cursor:
            return cursor.execute(sql, (account_id, datasource_id, after, limit)).fetchall()

    def page(self, connector_id: str, after: tuple[str, str, str], limit: int) -> tuple[Sequence[Catalogued], int]:
        """Return documents of all datasources, in the order of their keys, and how many there are in all.

        :param connector_id: only those that this connector brought; empty: all.
        :param after: the key of the last document of the page before; empty parts for the first page.
        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        wanted = "(%s = '' OR connector_id = %s)"
        sql = (
            f"SELECT {_COLUMNS} FROM documents WHERE {wanted} AND (account_id, datasource_id, doc_id) > (%s, %s, %s) "  # noqa: S608
            "ORDER BY account_id, datasource_id, doc_id LIMIT %s"
        )
        filters = (connector_id, connector_id)
        with self._tables.connection() as connection:
            with connection.cursor(row_factory=class_row(Catalogued)) as cursor:
                rows = cursor.execute(sql, (*filters, *after, limit)).fetchall()
            total = connection.execute(f"SELECT count(*) FROM documents WHERE {wanted}", filters).fetchone()  # noqa: S608
        assert total is not None
        return rows, int(total[0])

    def forget(self, account_id: str, datasource_id: str, doc_id: str, object_key: str) -> bool:
        """Remove a document's row if it names this object; return False where its reference is still to be published.

        A row that names another object is of a newer version, and stays.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        place = (account_id, datasource_id, doc_id, object_key)
        with self._tables.connection() as connection, connection.transaction():
            # The lock on the row keeps an upload from announcing it between the look and the deletion.
            pending = connection.execute(
                """SELECT published_at IS NULL FROM documents
                WHERE (account_id, datasource_id, doc_id, object_key) = (%s, %s, %s, %s) FOR UPDATE""",
                place,
            ).fetchone()
            if (pending is not None and pending[0]) or outbox.find(connection, datasource_id, [object_key]):
                return False
            connection.execute(
                """DELETE FROM documents
                WHERE (account_id, datasource_id, doc_id, object_key) = (%s, %s, %s, %s)""",
                place,
            )
        return True

    def waiting(self, datasource_id: str, object_keys: Sequence[str]) -> set[str]:
        """Return those of some objects to which a reference waits in the outbox.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        with self._tables.connection() as connection:
            return set(outbox.find(connection, datasource_id, object_keys))

    def remove(self, account_id: str, datasource_id: str, doc_id: str) -> bool:
        """Remove a document's row and the references to it that wait, whatever its state; return whether there was one.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        place = (account_id, datasource_id, doc_id)
        of_document = "WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"
        with self._tables.connection() as connection, connection.transaction():
            removed = connection.execute(f"DELETE FROM documents {of_document}", place).rowcount  # noqa: S608
            connection.execute(f"DELETE FROM outbox {of_document}", place)  # noqa: S608
        return removed > 0

    def _insert_and_lock(
        self, connection: Connection, rows: Sequence[Row]
    ) -> tuple[set[tuple[str, str, str]], dict[tuple[str, str, str], Catalogued]]:
        """Return which rows are new, and all of them as they are now, in the order of their keys."""
        new: set[tuple[str, str, str]] = set()
        known: dict[tuple[str, str, str], Catalogued] = {}
        # A row that was there for the insert may be removed before it is locked. Then it is new after all.
        while missing := [row for row in rows if _key(row) not in known]:
            new |= self._insert(connection, missing)
            known |= self._lock(connection, missing)
        return new, dict(sorted(known.items()))

    def _insert(self, connection: Connection, rows: Sequence[Row]) -> set[tuple[str, str, str]]:
        sql = """INSERT INTO documents
                (account_id, datasource_id, doc_id, object_key, checksum, size_bytes, mime_type, title,
                connector_id, document_type, metadata)
            SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
                %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::jsonb[])
            ON CONFLICT DO NOTHING RETURNING account_id, datasource_id, doc_id"""
        return set(connection.execute(sql, _columns(rows)).fetchall())

    def _lock(self, connection: Connection, rows: Sequence[Row]) -> dict[tuple[str, str, str], Catalogued]:
        sql = (
            f"SELECT {_COLUMNS} FROM documents WHERE (account_id, datasource_id, doc_id) IN "  # noqa: S608
            "(SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])) "
            "ORDER BY account_id, datasource_id, doc_id FOR UPDATE"
        )
        with connection.cursor(row_factory=class_row(Catalogued)) as cursor:
            return {_key(row): row for row in cursor.execute(sql, _columns(rows)[:3])}

    def _update(self, connection: Connection, rows: Sequence[Row]) -> None:
        sql = """UPDATE documents SET object_key = %s, checksum = %s, size_bytes = %s, mime_type = %s, title = %s,
                connector_id = %s, document_type = %s, metadata = %s,
                version = version + 1, updated_at = now(), published_at = NULL
            WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"""
        columns = _columns(rows)
        with connection.cursor() as cursor:
            cursor.executemany(sql, list(zip(*columns[3:], *columns[:3], strict=True)))


def _announce(
    connection: Connection, fresh: Sequence[Catalogued], rest: Sequence[Catalogued], announce: Announce
) -> dict[str, int]:
    """Put references into the outbox; return their numbers by object key.

    :param fresh: new versions. Each gets a reference of its own, also where an older one to the same content waits: a
        third version may be between the two.
    :param rest: known versions, which get one if none waits.
    """
    found: dict[str, int] = {}
    for datasource_id in {row.datasource_id for row in rest}:
        keys = [row.object_key for row in rest if row.datasource_id == datasource_id]
        found |= outbox.find(connection, datasource_id, keys)
    missing = [row for row in rest if row.object_key not in found]
    return found | outbox.insert(connection, [announce(row) for row in (*fresh, *missing)])


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
        "connector_id",
        "document_type",
    )
    return [[getattr(row, name) for row in rows] for name in names] + [[Jsonb(dict(row.metadata)) for row in rows]]
