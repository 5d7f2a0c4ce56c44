"""The catalogue: which documents there are, in which version, and whether their reference is published."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from psycopg.rows import class_row

from pipestream.documents import outbox
from pipestream.documents.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from pipestream.documents.tables import Connection
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

Outcome = Literal["new", "changed", "unchanged"]

# An upload and a deletion take minutes at most, however slow the store is: this covers both together.
_DELETION_LASTS = timedelta(hours=2)

_KEY_COLUMNS = "account_id, datasource_id, doc_id"
_GIVEN_COLUMNS = f"""{_KEY_COLUMNS}, object_key, checksum, size_bytes, mime_type, title, connector_id, document_type,
    metadata"""
_GIVEN_NAMES = tuple(column.strip() for column in _GIVEN_COLUMNS.split(","))
_KEY_NAMES = _GIVEN_NAMES[:3]
# Many rows as one parameter. JSON, because the client turns lists into arrays item by item, which takes longer than
# everything else together.
_GIVEN = """json_to_recordset(%s::json) AS given(account_id text, datasource_id text, doc_id text, object_key text,
    checksum text, size_bytes bigint, mime_type text, title text, connector_id text, document_type text,
    metadata jsonb)"""
_COLUMNS = f"{_GIVEN_COLUMNS}, created_at, updated_at, published_at, version"


DocumentKey = tuple[str, str, str]
"""A document's account, datasource and id."""


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

    @property
    def key(self) -> DocumentKey:
        return self.account_id, self.datasource_id, self.doc_id


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


_Rows = dict[DocumentKey, Catalogued]

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
        ordered = sorted(rows, key=attrgetter("key"))
        with self._tables.connection() as connection, connection.transaction():
            new, known = self._insert_and_lock(connection, ordered)
            changed = self._update(connection, [row for row in ordered if _is_changed(row, known)])
            current = known | changed | new
            fresh = [current[row.key] for row in ordered if row.key not in known or row.key in changed]
            rest = [row for key, row in known.items() if key not in changed and (force or row.published_at is None)]
            waiting = _announce(connection, fresh, rest, announce) if announce else {}
        recorded = []
        for key in map(attrgetter("key"), rows):
            outcome: Outcome = "new" if key in new else "changed" if key in changed else "unchanged"
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

    def page(self, connector_id: str, after: DocumentKey, limit: int) -> tuple[Sequence[Catalogued], int]:
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

        Delete its objects after this, not before: the deletion is noted here.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        place = (account_id, datasource_id, doc_id)
        self.note_deletions([place])
        of_document = "WHERE (account_id, datasource_id, doc_id) = (%s, %s, %s)"
        with self._tables.connection() as connection, connection.transaction():
            removed = connection.execute(f"DELETE FROM documents {of_document}", place).rowcount  # noqa: S608
            connection.execute(f"DELETE FROM outbox {of_document}", place)  # noqa: S608
        return removed > 0

    def note_deletions(self, documents: Iterable[DocumentKey]) -> None:
        """Note that objects of some documents are about to be deleted, before their rows are removed.

        An upload that is recorded after the row was removed finds the note, and looks whether its objects are still
        there. An upload that looked for the note before it was there was recorded before the row was removed, so it was
        deleted itself.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        # In one order for everybody, or two transactions could wait for each other's rows.
        ordered = sorted(set(documents))
        if not ordered:
            return
        sql = """INSERT INTO deletions (account_id, datasource_id, doc_id)
            SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])
            ON CONFLICT (account_id, datasource_id, doc_id) DO UPDATE SET noted_at = now()"""
        with self._tables.connection() as connection:
            connection.execute(sql, [list(column) for column in zip(*ordered, strict=True)])
            connection.execute(
                """DELETE FROM deletions WHERE (account_id, datasource_id, doc_id) IN (
                    SELECT account_id, datasource_id, doc_id FROM deletions
                    WHERE noted_at < now() - %s FOR UPDATE SKIP LOCKED)""",
                (_DELETION_LASTS,),
            )

    def deleted_lately(self, rows: Sequence[Row]) -> set[DocumentKey]:
        """Return those of some documents of which objects may have been deleted while they were uploaded.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = (
            f"SELECT {_KEY_COLUMNS} FROM deletions WHERE ({_KEY_COLUMNS}) IN (SELECT {_KEY_COLUMNS} FROM {_GIVEN}) "  # noqa: S608
            "AND noted_at >= now() - %s"
        )
        with self._tables.connection() as connection:
            return set(connection.execute(sql, (_given(rows, _KEY_NAMES), _DELETION_LASTS)).fetchall())

    def _insert_and_lock(self, connection: Connection, rows: Sequence[Row]) -> tuple[_Rows, _Rows]:
        """Return the rows that are new, and those that were there, as they are now, in the order of their keys."""
        new: _Rows = {}
        known: _Rows = {}
        # A row that was there for the insert may be removed before it is locked. Then it is new after all.
        while missing := [row for row in rows if row.key not in new and row.key not in known]:
            new |= self._insert(connection, missing)
            # What this transaction has inserted, nobody else can change.
            known |= self._lock(connection, [row for row in missing if row.key not in new])
        return new, dict(sorted(known.items()))

    def _insert(self, connection: Connection, rows: Sequence[Row]) -> _Rows:
        sql = f"""INSERT INTO documents ({_GIVEN_COLUMNS}) SELECT {_GIVEN_COLUMNS} FROM {_GIVEN}
            ON CONFLICT DO NOTHING RETURNING {_COLUMNS}"""  # noqa: S608
        return _read(connection, sql, rows)

    def _lock(self, connection: Connection, rows: Sequence[Row]) -> _Rows:
        sql = (
            f"SELECT {_COLUMNS} FROM documents WHERE ({_KEY_COLUMNS}) IN "  # noqa: S608
            f"(SELECT {_KEY_COLUMNS} FROM {_GIVEN}) ORDER BY {_KEY_COLUMNS} FOR UPDATE"
        )
        return _read(connection, sql, rows, _KEY_NAMES)

    def _update(self, connection: Connection, rows: Sequence[Row]) -> _Rows:
        """Give rows, which are locked, the content of the next version."""
        sql = f"""WITH given AS (SELECT * FROM {_GIVEN})
            UPDATE documents SET object_key = given.object_key, checksum = given.checksum,
                size_bytes = given.size_bytes, mime_type = given.mime_type, title = given.title,
                connector_id = given.connector_id, document_type = given.document_type, metadata = given.metadata,
                version = version + 1, updated_at = now(), published_at = NULL
            FROM given
            WHERE (documents.account_id, documents.datasource_id, documents.doc_id)
                = (given.account_id, given.datasource_id, given.doc_id)
            RETURNING {", ".join(f"documents.{column.strip()}" for column in _COLUMNS.split(","))}"""  # noqa: S608
        return _read(connection, sql, rows)


def _is_changed(row: Row, known: Mapping[DocumentKey, Catalogued]) -> bool:
    found = known.get(row.key)
    return found is not None and found.checksum != row.checksum


def _read(connection: Connection, sql: str, rows: Sequence[Row], names: Sequence[str] = _GIVEN_NAMES) -> _Rows:
    """Return the rows that a statement about some rows returns."""
    if not rows:
        return {}
    with connection.cursor(row_factory=class_row(Catalogued)) as cursor:
        return {row.key: row for row in cursor.execute(sql, (_given(rows, names),))}


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


def _given(rows: Sequence[Row], names: Sequence[str] = _GIVEN_NAMES) -> str:
    """Return rows, or some of their columns, as a parameter for ``_GIVEN``."""
    return json.dumps([{name: getattr(row, name) for name in names} for row in rows], default=dict)
