"""The versions of graphs in PostgreSQL: what was applied when, by whom, and which one is active."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from pipestream.database import Connection, Database
from pipestream.errors import TerminalError
from pipestream.graph.proto import BuiltGraph, from_kept, graph_hash, to_binary

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

# An arbitrary number that nobody else in the database uses for a lock.
_SCHEMA_LOCK = 6_171_001
_GRAPH_LOCK = 6_171_002

_SCHEMA = """
CREATE TABLE IF NOT EXISTS graph_versions (
    graph_id text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    hash text NOT NULL,
    content bytea NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (graph_id, version),
    UNIQUE (graph_id, hash)
);
CREATE TABLE IF NOT EXISTS graph_activations (
    activation bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    graph_id text NOT NULL,
    version integer,  -- NULL: the graph was deleted
    activated_by text NOT NULL,
    activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (graph_id, version) REFERENCES graph_versions
);
CREATE TABLE IF NOT EXISTS graph_leftovers (
    graph_id text NOT NULL,
    topic text NOT NULL,
    PRIMARY KEY (graph_id, topic)
);
CREATE INDEX IF NOT EXISTS graph_activations_latest ON graph_activations (graph_id, activation DESC);
-- For tables of a release that could not delete graphs. Only there: the change locks readers out for a moment.
DO $$ BEGIN
    IF (SELECT attnotnull FROM pg_attribute WHERE attrelid = 'graph_activations'::regclass AND attname = 'version') THEN
        ALTER TABLE graph_activations ALTER COLUMN version DROP NOT NULL;
    END IF;
END $$;
"""

_ACTIVE = """
SELECT version, activated_by, activated_at FROM graph_activations
WHERE graph_id = %s ORDER BY activation DESC LIMIT 1
"""

_HISTORY = """
SELECT v.version, v.hash, v.applied_by, v.applied_at, a.activated_by, a.activated_at
FROM graph_versions v
LEFT JOIN (
    SELECT version, activated_by, activated_at FROM graph_activations
    WHERE graph_id = %s ORDER BY activation DESC LIMIT 1
) a ON a.version = v.version
WHERE v.graph_id = %s ORDER BY v.version DESC
"""


class _TablesMissing(Exception):
    """No graph was ever applied in this database."""


class VersionMissing(TerminalError):
    """There is no such version of a graph."""

    def __init__(self, graph_id: str, version: int | str) -> None:
        self.graph_id = graph_id
        self.version = version
        super().__init__(
            f"graph {graph_id} has no version {version}; `pipestream graph history {graph_id}` lists them, and "
            f"`pipestream graph apply FILE` makes one"
        )


class VersionConflict(TerminalError):
    """Another version became the active one since the caller looked."""

    def __init__(self, graph_id: str, expected: int, active: int) -> None:
        """:param expected: the version that the caller started from; 0: there was none."""
        self.graph_id = graph_id
        self.expected = expected
        self.active = active
        now = f"version {active} is active now" if active else "no version is active now"
        super().__init__(
            f"graph {graph_id}: the change starts from {f'version {expected}' if expected else 'no version'}, but "
            f"{now}; look at what changed, and apply your change to that"
        )


@dataclass(frozen=True, slots=True)
class GraphVersion:
    """One version of a graph, numbered from 1. Its content never changes."""

    graph_id: str
    version: int
    hash: str
    applied_by: str
    applied_at: datetime
    active: bool
    active_since: datetime | None = None
    """When it became the active one, if it is."""
    activated_by: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Who deleted a graph, and when."""

    deleted_by: str
    deleted_at: datetime


@dataclass(frozen=True, slots=True)
class ActiveGraph:
    """The active version of a graph: its number and the graph itself."""

    version: int
    built: BuiltGraph


class GraphVersions:
    """Keeps graph versions in PostgreSQL. The first change creates the tables; until then there are no versions."""

    def __init__(self, settings: Settings) -> None:
        self._database = Database(settings.postgres_dsn)
        self._has_tables = False

    def save(self, graph: Graph, *, applied_by: str, base_version: int | None = None) -> GraphVersion:
        """Make a graph the active version of its id.

        A new version is created only if no version has this content yet.

        :param base_version: the version that must be active now; 0: none may be. Without it, whichever is.
        :raises VersionConflict: another one is; nothing was changed.
        """
        content, digest = to_binary(graph), graph_hash(graph)

        def work(connection: Connection) -> int:
            _lock_graph(connection, graph.graph_id)
            _refuse_moved(connection, graph.graph_id, base_version)
            found = connection.execute(
                "SELECT version FROM graph_versions WHERE graph_id = %s AND hash = %s", (graph.graph_id, digest)
            ).fetchone()
            if found is None:
                found = connection.execute(
                    "INSERT INTO graph_versions (graph_id, version, hash, content, applied_by)"
                    " SELECT %s, coalesce(max(version), 0) + 1, %s, %s, %s FROM graph_versions WHERE graph_id = %s"
                    " RETURNING version",
                    (graph.graph_id, digest, content, applied_by, graph.graph_id),
                ).fetchone()
            assert found is not None
            _activate(connection, graph.graph_id, found[0], applied_by)
            return int(found[0])

        self._make_tables()
        return self._version(graph.graph_id, self._database.run(work))

    def check_base(self, graph_id: str, base_version: int | None) -> None:
        """Refuse a change if another version has become active since it began. ``save`` checks it again.

        :raises VersionConflict: as ``save``.
        """
        self._make_tables()
        self._database.run(lambda connection: _refuse_moved(connection, graph_id, base_version))

    def graph_ids(self) -> list[str]:
        """Return the ids of all graphs that have versions, sorted."""
        return [row[0] for row in self._rows("SELECT DISTINCT graph_id FROM graph_versions ORDER BY 1", ())]

    def history(self, graph_id: str) -> list[GraphVersion]:
        """Return all versions of a graph, newest first; none for a graph that was never applied."""
        rows = self._rows(_HISTORY, (graph_id, graph_id))
        return [
            GraphVersion(graph_id, version, digest, by, at, since is not None, since, activated_by or "")
            for version, digest, by, at, activated_by, since in rows
        ]

    def latest_activation(self) -> int:
        """Return a number that grows whenever a version of any graph becomes the active one, or a graph is deleted."""
        rows = self._rows("SELECT coalesce(max(activation), 0) FROM graph_activations", ())
        return int(rows[0][0]) if rows else 0

    def active(self, graph_id: str) -> Graph | None:
        """Return the active version's graph, or None for a graph that was never applied, or was deleted."""
        rows = self._rows(
            "SELECT content FROM graph_versions WHERE graph_id = %s"
            " AND version = (SELECT version FROM graph_activations WHERE graph_id = %s"
            " ORDER BY activation DESC LIMIT 1)",
            (graph_id, graph_id),
        )
        return from_kept(bytes(rows[0][0]), source=f"graph {graph_id}") if rows else None

    def active_versions(self) -> dict[str, tuple[int, str]]:
        """Return number and hash of every graph's active version, by the graphs' ids in their order.

        It is cheap enough to ask every few seconds.
        """
        rows = self._rows(
            "SELECT graph_id, v.version, v.hash FROM (SELECT DISTINCT ON (graph_id) graph_id, version"
            " FROM graph_activations ORDER BY graph_id, activation DESC) a"
            " JOIN graph_versions v USING (graph_id, version) ORDER BY graph_id",
            (),
        )
        return {graph_id: (version, digest) for graph_id, version, digest in rows}

    def get(self, graph_id: str, version: int | str) -> Graph:
        """Return the graph of a version, given by number, or by hash or the start of one.

        :raises VersionMissing: there is none, or the start of the hash fits several.
        """
        return from_kept(self.content(graph_id, version), source=f"graph {graph_id}")

    def content(self, graph_id: str, version: int | str) -> bytes:
        """Return the message of a version, given as for ``get``.

        :raises VersionMissing: as for ``get``.
        """
        column, value = ("version = %s", version) if isinstance(version, int) else ("starts_with(hash, %s)", version)
        rows = self._rows(
            f"SELECT content FROM graph_versions WHERE graph_id = %s AND {column}",  # noqa: S608 - constants
            (graph_id, value),
        )
        if len(rows) != 1 or version == "":
            raise VersionMissing(graph_id, version)
        return bytes(rows[0][0])

    def rollback(self, graph_id: str, version: int, *, applied_by: str) -> GraphVersion:
        """Make an older version the active one again.

        :raises VersionMissing: there is none.
        """

        def work(connection: Connection) -> None:
            _lock_graph(connection, graph_id)
            known = connection.execute(
                "SELECT 1 FROM graph_versions WHERE graph_id = %s AND version = %s", (graph_id, version)
            ).fetchone()
            if known is None:
                raise VersionMissing(graph_id, version)
            _activate(connection, graph_id, version, applied_by)

        self._make_tables()
        self._database.run(work)
        return self._version(graph_id, version)

    def delete(self, graph_id: str, *, deleted_by: str, base_version: int | None = None) -> int:
        """Leave a graph without an active version, and return the number of the last one. All its versions are kept.

        :param base_version: the version that must be active now. Without it, whichever is.
        :raises VersionMissing: none is active.
        :raises VersionConflict: another one is; nothing was changed.
        """

        def work(connection: Connection) -> int:
            _lock_graph(connection, graph_id)
            _refuse_moved(connection, graph_id, base_version)
            active = connection.execute(_ACTIVE, (graph_id,)).fetchone()
            if active is None or active[0] is None:
                raise VersionMissing(graph_id, "that is active")
            _note_activation(connection, graph_id, None, deleted_by)
            return int(active[0])

        self._make_tables()
        return self._database.run(work)

    def deletion(self, graph_id: str) -> Deletion | None:
        """Return who deleted a graph and when; None for one that has an active version, or never had one."""
        rows = self._rows(_ACTIVE, (graph_id,))
        return Deletion(rows[0][1], rows[0][2]) if rows and rows[0][0] is None else None

    def leftovers(self, graph_id: str) -> list[str]:
        """Return the topics that the graph no longer needs but that could not be retired yet, sorted."""
        rows = self._rows("SELECT topic FROM graph_leftovers WHERE graph_id = %s ORDER BY topic", (graph_id,))
        return [row[0] for row in rows]

    def note_leftovers(self, graph_id: str, topics: Collection[str]) -> None:
        """Replace the list of these topics, so that a later apply tries again, also after a crash."""

        def work(connection: Connection) -> None:
            _lock_graph(connection, graph_id)
            connection.execute("DELETE FROM graph_leftovers WHERE graph_id = %s", (graph_id,))
            connection.execute(
                "INSERT INTO graph_leftovers SELECT %s, unnest(%s::text[])", (graph_id, sorted(set(topics)))
            )

        self._make_tables()
        self._database.run(work)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _version(self, graph_id: str, version: int) -> GraphVersion:
        return next(each for each in self.history(graph_id) if each.version == version)

    def _rows(self, query: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return what a query finds; nothing if the tables do not exist.

        Reading does not create tables. Every drain reads, and drains that begin together would wait for each other.
        """

        def work(connection: Connection) -> list[tuple[Any, ...]]:
            try:
                return connection.execute(query, parameters).fetchall()
            except psycopg.errors.UndefinedTable:
                raise _TablesMissing from None  # out of the transaction, which PostgreSQL has given up

        try:
            return self._database.run(work)
        except _TablesMissing:
            return []

    def _make_tables(self) -> None:
        if self._has_tables:
            return

        def work(connection: Connection) -> None:
            # IF NOT EXISTS alone fails where two processes make the same table at once.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            connection.execute(_SCHEMA)

        self._database.run(work)
        self._has_tables = True


def _lock_graph(connection: Connection, graph_id: str) -> None:
    """Let writers of one graph take turns, so that versions have no gaps and the last activation wins."""
    connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_GRAPH_LOCK, graph_id))


def _refuse_moved(connection: Connection, graph_id: str, base_version: int | None) -> None:
    if base_version is None:
        return
    found = connection.execute(_ACTIVE, (graph_id,)).fetchone()
    active = (found[0] if found else None) or 0
    if active != base_version:
        raise VersionConflict(graph_id, base_version, active)


def _activate(connection: Connection, graph_id: str, version: int, by: str) -> None:
    active = connection.execute(_ACTIVE, (graph_id,)).fetchone()
    if active is None or active[0] != version:
        _note_activation(connection, graph_id, version, by)


def _note_activation(connection: Connection, graph_id: str, version: int | None, by: str) -> None:
    connection.execute(
        "INSERT INTO graph_activations (graph_id, version, activated_by) VALUES (%s, %s, %s)", (graph_id, version, by)
    )


def find_version(settings: Settings, graph_id: str, version: int | str) -> Graph:
    """Return one version of a graph, by its number or its hash.

    :raises VersionMissing: it was never applied.
    """
    with closing(GraphVersions(settings)) as versions:
        return versions.get(graph_id, version)
