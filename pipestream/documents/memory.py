"""What a datasource's connector has seen in earlier runs, kept in the database of the catalogue.

A state is written after the documents that it covers are recorded, never before. After a crash between the two, the
next run finds these documents again under the same ids, and the catalogue knows them: nothing is lost or repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from pipestream.documents.tables import Tables
    from pipestream.graph.model import Datasource

# PostgreSQL's index takes rows of up to 2,704 bytes. The addresses of pages may be longer.
_MAX_ITEM_BYTES = 1_000


class ConnectorMemory:
    """The states by item. A scope is a connector with its options: with others, a datasource starts over."""

    def __init__(self, tables: Tables, datasource: Datasource, scope: str) -> None:
        self._tables = tables
        self._place = (datasource.account_id, datasource.datasource_id, scope)

    def recall(self, items: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return the states of those items that have one.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        if not items:
            return {}
        by_key = {_key(item): item for item in items}
        sql = """SELECT item, state FROM connector_memory
            WHERE (account_id, datasource_id, scope) = (%s, %s, %s) AND item = ANY(%s)"""
        with self._tables.connection() as connection:
            rows = connection.execute(sql, (*self._place, list(by_key))).fetchall()
        return {by_key[key]: state for key, state in rows}

    def remember(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep the states of items, in place of those they had.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        if not states:
            return
        # In one order for everybody, or two transactions could wait for each other's rows.
        ordered = sorted(((_key(item), Jsonb(dict(state))) for item, state in states.items()), key=lambda each: each[0])
        sql = """INSERT INTO connector_memory (account_id, datasource_id, scope, item, state)
            SELECT %s, %s, %s, * FROM unnest(%s::text[], %s::jsonb[])
            ON CONFLICT (account_id, datasource_id, scope, item)
            DO UPDATE SET state = excluded.state, seen_at = now()"""
        with self._tables.connection() as connection:
            connection.execute(sql, (*self._place, [key for key, _ in ordered], [state for _, state in ordered]))

    def forget_other_scopes(self) -> None:
        """Remove what the datasource's connector remembered under other options.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        sql = """DELETE FROM connector_memory
            WHERE (account_id, datasource_id) = (%s, %s) AND scope <> %s"""
        with self._tables.connection() as connection:
            connection.execute(sql, self._place)


def _key(item: str) -> str:
    """Return an item as the table holds it: PostgreSQL knows no zero character, and its index no long text."""
    data = item.encode(errors="surrogateescape")
    if len(data) <= _MAX_ITEM_BYTES and "\0" not in item and item.isprintable():
        return item
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
