"""One connection to PostgreSQL with timeouts. Its errors are ours and never show the password."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pipestream.errors import DatabaseRefused, DatabaseUnavailable, SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import SecretStr

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_S = 5
# The server's own timeout should come first; this one is for a server that no longer runs or is cut off.
ANSWER_TIMEOUT_S = 8.0

SERIALIZATION_TRIES = 12
# Doubles up to the longest, half of it at random: 12 tries take about 2 s at worst.
SERIALIZATION_PAUSE_S = 0.005
SERIALIZATION_PAUSE_MAX_S = 0.3


@contextmanager
def cut_after(timeout_s: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Cut a connection if the block takes longer.

    The statement timeout is enforced by the server. A server that was stopped, or whose host is gone, enforces
    nothing, and the client library would wait for it forever.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as line:

        def cut() -> None:
            with suppress(OSError):  # gone by itself in the meantime
                line.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(timeout_s, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


class Database:
    """A connection that opens when first needed. One thread uses it at a time, and a broken one is opened again."""

    def __init__(
        self,
        dsn: SecretStr,
        *,
        statement_timeout_s: float = STATEMENT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._statement_timeout_s = statement_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._dsn = dsn.get_secret_value()
        try:
            parameters = conninfo_to_dict(self._dsn)
        except psycopg.Error:
            # The parser's message may quote the password, so it is not passed on.
            raise SettingsInvalid(
                "postgres_dsn cannot be read; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ) from None
        self._password = str(parameters.get("password") or "")
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def run(self, work: Callable[[Connection], Result], *, serializable: bool = False) -> Result:
        """Return what ``work`` returns, done in one transaction.

        It is retried after a serialization failure, and once if a connection that was open before is broken. It may
        run again after a commit whose answer was lost, so ``work`` must be idempotent.

        :raises DatabaseUnavailable: PostgreSQL did not answer in time, or could not do it now.
        :raises DatabaseRefused: PostgreSQL refuses the statements.
        """
        with self._lock, self._explain_errors():
            fresh = self._connection is None
            try:
                return self._attempt(work, serializable)
            except psycopg.OperationalError:
                if fresh or self._connection is not None:
                    raise
            return self._attempt(work, serializable)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Open a connection for the caller alone, with autocommit on, for work that takes long.

        :raises DatabaseUnavailable: PostgreSQL did not answer in time.
        """
        with self._explain_errors():
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def limited(self, connection: Connection) -> Iterator[None]:
        """Cut a connection if the block takes longer than an answer may."""
        with cut_after(self._answer_timeout_s, connection):
            yield

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _attempt(self, work: Callable[[Connection], Result], serializable: bool) -> Result:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        pause_s = SERIALIZATION_PAUSE_S
        try:
            for left in reversed(range(SERIALIZATION_TRIES)):
                try:
                    with self.limited(connection), connection.transaction():
                        if serializable:
                            connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                        return work(connection)
                except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                    if left == 0:
                        raise
                time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - not for secrets
                pause_s = min(2 * pause_s, SERIALIZATION_PAUSE_MAX_S)
            raise AssertionError("the last try returns or raises")
        except BaseException:
            if connection.closed or connection.broken or connection.info.transaction_status:
                self._drop()
            raise

    def _connect(self) -> Connection:
        connection = psycopg.connect(
            self._dsn,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            # How long sent data may stay unacknowledged: a cable that was pulled is noticed by the kernel.
            tcp_user_timeout=str(int(self._answer_timeout_s * 1000)),
            application_name="pipestream",
        )
        try:
            with self.limited(connection):
                # By statement and not by `options`, which would replace those in the user's DSN.
                limit = f"{self._statement_timeout_s * 1000:.0f}ms"
                connection.execute("SELECT set_config('statement_timeout', %s, false)", (limit,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
            raise DatabaseUnavailable(f"PostgreSQL does not answer: {self._redact(error)}") from None
        except psycopg.Error as error:
            raise DatabaseRefused(
                f"PostgreSQL refuses our tables: {self._redact(error)}; postgres_dsn must name a "
                f"database of this product's own and a role that may create tables in it"
            ) from None

    def _redact(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        return text.replace(self._password, "***") if self._password else text
