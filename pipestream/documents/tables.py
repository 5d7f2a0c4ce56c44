"""The Repository's tables in PostgreSQL.

They are the catalogue of documents, the outbox of their references, what was deleted lately, and what connectors have
seen.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from pipestream.database import cut_after
from pipestream.errors import DatabaseRefused, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.settings import Settings

Connection = psycopg.Connection[Any]

# Any constant of our own: processes that make the tables at the same time must not get in each other's way.
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
ALTER TABLE documents
    ADD COLUMN IF NOT EXISTS connector_id  text  NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS document_type text  NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS metadata      jsonb NOT NULL DEFAULT '{}';
CREATE INDEX IF NOT EXISTS documents_pending ON documents (account_id, datasource_id, doc_id)
    WHERE published_at IS NULL;
CREATE TABLE IF NOT EXISTS outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id    text        NOT NULL,
    datasource_id text        NOT NULL,
    doc_id        text        NOT NULL,
    object_key    text        NOT NULL,
    value         bytea       NOT NULL,
    headers       jsonb       NOT NULL,
    recorded_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS outbox_in_order ON outbox (datasource_id, id);
CREATE TABLE IF NOT EXISTS outbox_lanes (
    datasource_id text     PRIMARY KEY,
    token         bigint   NOT NULL DEFAULT 0,
    batch_id      text,
    claimed       bigint[] NOT NULL DEFAULT '{}'
);
CREATE TABLE IF NOT EXISTS deletions (
    account_id    text        NOT NULL,
    datasource_id text        NOT NULL,
    doc_id        text        NOT NULL,
    noted_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, datasource_id, doc_id)
);
CREATE INDEX IF NOT EXISTS deletions_by_time ON deletions (noted_at);
CREATE TABLE IF NOT EXISTS connector_memory (
    account_id    text        NOT NULL,
    datasource_id text        NOT NULL,
    scope         text        NOT NULL,
    item          text        NOT NULL,
    state         jsonb       NOT NULL,
    seen_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, datasource_id, scope, item)
);
"""
_CONNECT_TIMEOUT_S = 10
_STATEMENT_TIMEOUT_S = 30
# For a server that was stopped or is cut off. Longer than several statements take that each are near their own limit.
_ANSWER_TIMEOUT_S = 60.0


class Tables:
    """Connections to the tables, which are made on first use. Safe to use from several threads."""

    def __init__(
        self, settings: Settings, *, connections: int = 4, answer_timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> None:
        """
        :param answer_timeout_s: how long the work with a borrowed connection may take.
        """
        self._answer_timeout_s = answer_timeout_s
        self._pool = ConnectionPool(
            settings.postgres_dsn.get_secret_value(),
            min_size=0,
            max_size=connections,
            open=False,
            timeout=_CONNECT_TIMEOUT_S,
            reconnect_timeout=_CONNECT_TIMEOUT_S,
            kwargs={
                "connect_timeout": _CONNECT_TIMEOUT_S,
                "options": f"-c statement_timeout={_STATEMENT_TIMEOUT_S}s",
            },
        )
        self._ready = False

    def close(self) -> None:
        """Give back the connections."""
        self._pool.close()

    def check(self) -> None:
        """Check that PostgreSQL answers.

        :raises DatabaseUnavailable: it does not.
        """
        with self.connection() as connection:
            connection.execute("SELECT 1")

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Borrow a connection.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        :raises DatabaseRefused: PostgreSQL refuses the statements.
        """
        with self.lasting_connection() as connection, self.limited(connection):
            yield connection

    @contextmanager
    def limited(self, connection: Connection) -> Iterator[None]:
        """Cut a connection if the block takes longer than the work with one may."""
        with cut_after(self._answer_timeout_s, connection):
            yield

    @contextmanager
    def lasting_connection(self) -> Iterator[Connection]:
        """Borrow a connection for as long as the block takes. Every use of it must be ``limited``, and leave it idle.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        :raises DatabaseRefused: PostgreSQL refuses the statements.
        """
        try:
            self._pool.open()
            with self._pool.connection() as connection:
                if not self._ready:
                    with self.limited(connection), connection.transaction():
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
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
            raise DatabaseUnavailable(f"PostgreSQL: {_public_message(error)}") from None
        except psycopg.Error as error:
            raise DatabaseRefused(f"PostgreSQL refuses the Repository's tables: {_public_message(error)}") from None


def _public_message(error: psycopg.Error) -> str:
    """What the server said, which never holds our connection string; else only the kind of error."""
    return error.diag.message_primary or type(error).__name__
