"""Documents from a SQL query, of any database that SQLAlchemy reaches: the rows from the last value of a column on.

The rows at the last value are read again by the next run, because another one with the same value may have come after
the last was read. They have the same ids, so that the catalogue knows them, and only what changed is published.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from pipestream.connectors.connector import Found, Memory, Seen, Unreadable
from pipestream.connectors.options import read_options
from pipestream.connectors.rows import RowOptions, row_document
from pipestream.errors import ConnectorInvalid, DatabaseUnavailable, SourceUnreadable
from pipestream.extras import needs_extra

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Select

    from pipestream.plugins import PluginContext

log = logging.getLogger(__name__)

_ITEM = "column"
_ROWS_AT_ONCE = 500
_LOGGED_ROWS = 10_000


class SqlOptions(RowOptions):
    """The options of the kind ``sql``."""

    kind: ClassVar[str] = "sql"

    url_secret: str = Field(
        min_length=1, description="The name of the secret that holds the database's SQLAlchemy URL, with its password."
    )
    query: str = Field(min_length=1, description="The SELECT, without ORDER BY and without a semicolon.")
    column: str = Field(min_length=1, description="A column of the query that only grows, such as updated_at.")
    id: list[str] = Field(min_length=1, description="The columns of the query that name a row.")
    overlap: float = Field(
        0,
        ge=0,
        description="Reads again what is so far below the last value, in seconds where the column is a time: "
        "for transactions that commit later than others with larger values.",
    )

    @field_validator("query")
    @classmethod
    def _check_query(cls, given: str) -> str:
        if given.split(maxsplit=1)[0].lower() not in ("select", "with"):
            raise ValueError("it must begin with SELECT or WITH")
        if ";" in given:
            raise ValueError("leave the semicolon out: it is one statement, inside another")
        return given


class SqlConnector:
    """Every row of the query, in the order of the growing column. Nothing is written to the database."""

    def __init__(self, options: SqlOptions, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        self.scope = options.scope
        self.max_documents = options.max_documents

    def changes(self, memory: Memory) -> Iterator[Found]:
        state = memory.recall([_ITEM]).get(_ITEM)
        last = decode_value(state) if state else None
        with self._rows(last) as rows:
            current = last
            for number, row in enumerate(rows, 1):
                if number % _LOGGED_ROWS == 0:
                    log.info("sql connector: %d rows read, %s is %r", number, self._options.column, current)
                value = row[self._column_in(row)]
                if value is None:
                    yield Unreadable(self._shown(row), f"its {self._options.column} is NULL; give it a value")
                    continue
                if value != current and _is_later(current, last):
                    # All rows of the value before are read. Not after each row: of a value's rows, a limit takes all.
                    yield Seen(_ITEM, encode_value(current))
                current = value
                yield self._document(row)
        if _is_later(current, last):
            yield Seen(_ITEM, encode_value(current))

    def _document(self, row: Mapping[str, Any]) -> Found:
        shown = self._shown(row)
        try:
            return row_document(row, self._options, shown, f"sql:{shown}")
        except ValueError as error:
            return Unreadable(shown, str(error))

    def _shown(self, row: Mapping[str, Any]) -> str:
        return "row " + "/".join(str(row.get(column)) for column in self._options.id)

    def _column_in(self, row: Mapping[str, Any]) -> str:
        if self._options.column not in row:
            raise SourceUnreadable(
                f"sql connector: the query has no column {self._options.column}; it has {', '.join(row)}"
            )
        return self._options.column

    @contextmanager
    def _rows(self, last: Any) -> Iterator[Iterator[Mapping[str, Any]]]:
        """Run the query in a transaction that is rolled back, and read its rows as they come."""
        import sqlalchemy

        try:
            with self._engine.connect() as connection:
                yield self._read(connection, last)
        except sqlalchemy.exc.OperationalError as error:
            raise DatabaseUnavailable(f"sql connector: {_message(error, self._engine)}") from None
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise SourceUnreadable(
                f"sql connector: the database refuses it: {_message(error, self._engine)}; correct query or column"
            ) from None
        finally:
            self._engine.dispose()

    def _read(self, connection: Connection, last: Any) -> Iterator[Mapping[str, Any]]:
        options = {"stream_results": True, "yield_per": _ROWS_AT_ONCE}
        result = connection.execute(self._statement(last), execution_options=options)
        for row in result.mappings():
            yield dict(row)

    def _statement(self, last: Any) -> Select[Any]:
        import sqlalchemy as sa

        # Without the backslashes, a colon in a text such as '{"a":1}' would begin the name of a parameter.
        query = self._options.query.replace(":", r"\:")
        inner = sa.text(query).columns(sa.column(self._options.column)).subquery("source")
        growing = inner.c[self._options.column]
        statement: Select[Any] = sa.select(sa.literal_column("*")).select_from(inner).order_by(growing)
        if last is None:
            return statement
        # Rows without a value are asked for as well, so that each run reports them.
        return statement.where(sa.or_(growing >= sa.literal(_less(last, self._options.overlap)), growing.is_(None)))


def open_sql(options: Mapping[str, Any], context: PluginContext) -> SqlConnector:
    """Make the connector of kind ``sql``.

    :raises ExtraMissing: SQLAlchemy, or the driver that the URL names, is not installed.
    """
    with needs_extra("connectors"):
        import sqlalchemy as sa
    read = read_options(SqlOptions, options)
    try:
        engine = sa.create_engine(context.secret(read.url_secret), hide_parameters=True, poolclass=sa.pool.NullPool)
    except sa.exc.ArgumentError:
        # The message of SQLAlchemy may show the URL, and the URL a password.
        raise ConnectorInvalid(
            f"sql connector: the secret {read.url_secret} is not a URL of SQLAlchemy, such as "
            "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or sqlite:////FILE"
        ) from None
    except ModuleNotFoundError as error:
        raise ConnectorInvalid(
            f"sql connector: the driver {error.name} is not installed; install it, or name another one in the URL"
        ) from None
    return SqlConnector(read, engine)


def encode_value(value: Any) -> dict[str, Any]:
    """Return a value of the growing column as JSON holds it.

    :raises SourceUnreadable: a column of this kind cannot grow.
    """
    match value:
        case bool():
            pass
        case int() | str():
            return {"type": type(value).__name__, "value": str(value)}
        case float() | Decimal():
            return {"type": "decimal" if isinstance(value, Decimal) else "float", "value": str(value)}
        case datetime():
            return {"type": "datetime", "value": value.isoformat()}
        case date():
            return {"type": "date", "value": value.isoformat()}
    raise SourceUnreadable(
        f"sql connector: a {type(value).__name__} cannot be the growing column; take a number, a text or a time"
    )


def decode_value(state: Mapping[str, Any]) -> Any:
    """Return what ``encode_value`` was given."""
    read: dict[str, Callable[[str], Any]] = {
        "int": int,
        "str": str,
        "float": float,
        "decimal": Decimal,
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
    }
    return read[state["type"]](state["value"])


def _is_later(value: Any, last: Any) -> bool:
    """Tell whether the state moves on; it never moves back, though an overlap begins below it."""
    if value is None or last is None:
        return value is not None
    try:
        return bool(value > last)
    except TypeError:  # the column is of another type than it was
        return True


def _less(last: Any, overlap: float) -> Any:
    if not overlap:
        return last
    if isinstance(last, (datetime, date)):
        return last - timedelta(seconds=overlap)
    if isinstance(last, str):
        raise ConnectorInvalid("sql connector: overlap needs a column of numbers or times, not of texts")
    return last - (math.ceil(overlap) if isinstance(last, int) else type(last)(overlap))


def _message(error: Exception, engine: Engine) -> str:
    """Return what the database said, without the password."""
    text = " ".join(str(getattr(error, "orig", None) or error).split())[:500]
    password = engine.url.password
    return text.replace(str(password), "***") if password else text
