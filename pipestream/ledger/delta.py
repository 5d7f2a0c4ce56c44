"""Delta tables as the ledger uses them: find one, make one, append by compare-and-set, read rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from pipestream.errors import LedgerDamaged, StoreRefused, StoreUnavailable
from pipestream.objects.s3 import delta_options, read_answer
from pipestream.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

# Every round of a race has a winner, so this is how many writers may meet at one app transaction.
TRIES = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ledger is, and what it takes to get there. The options hold secrets: never log them."""

    root: str
    folder: Path | None
    """Of a ledger on disk."""
    options: dict[str, str] | None

    @classmethod
    def of(cls, settings: Settings) -> Place:
        uri = settings.ledger_uri.rstrip("/")
        if uri.startswith("file://"):
            folder = Path(unquote(uri.removeprefix("file://"))).resolve()
            return cls(str(folder), folder, None)
        return cls(uri, None, delta_options(settings))

    def find(self, name: str) -> DeltaTable | None:
        """Return a table as it is now, or None where it was never written to. Makes nothing."""
        with explained(f"{self.root}/{name}"):
            try:
                return DeltaTable(f"{self.root}/{name}", storage_options=self.options)
            except TableNotFoundError:
                return None

    def open(self, name: str, schema: pa.Schema) -> DeltaTable:
        """Return a table as it is now; it is made if it is not there yet."""
        found = self.find(name)
        if found is not None:
            return found
        with explained(f"{self.root}/{name}"):
            try:
                # "ignore": the second process finds the table of the first.
                return DeltaTable.create(
                    f"{self.root}/{name}", schema=schema, mode="ignore", storage_options=self.options
                )
            except CommitFailedError:
                # Another process made it between the look and the commit.
                return DeltaTable(f"{self.root}/{name}", storage_options=self.options)


def append(table: DeltaTable, rows: pa.Table, versions: dict[str, int]) -> None:
    """Append rows, and set app transactions to new versions.

    :raises CommitFailedError: someone set one of them since the table was loaded; nothing was changed, unless that
        someone is this very call: S3 may take a commit whose answer is lost, and the client then asks again.
    """
    transactions = [Transaction(app_id, version) for app_id, version in sorted(versions.items())]
    with explained(table.table_uri):
        write_deltalake(table, rows, mode="append", commit_properties=CommitProperties(app_transactions=transactions))


def read(table: DeltaTable, predicate: str | None, columns: list[str] | None = None) -> pa.Table:
    """Return the rows that a predicate holds for."""
    from pipestream.arrow import from_stream

    # Not to_pyarrow_table(): its scanner's threads outlive it, and two of three processes that
    # used it aborted when the interpreter exited.
    with explained(table.table_uri):
        return from_stream(table.scan(columns=columns, predicate=predicate))


def read_parts(table: DeltaTable, predicate: str | None, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the rows that a predicate holds for, a part at a time."""
    from pipestream.arrow import parts_from_stream

    with explained(table.table_uri):
        yield from parts_from_stream(table.scan(columns=columns, predicate=predicate))


def rows(table: DeltaTable | None, predicate: str | None) -> list[dict[str, Any]]:
    """Return the rows that a predicate holds for, as dictionaries; no table has no rows."""
    if table is None:
        return []
    from pipestream.arrow import to_rows

    return to_rows(read(table, predicate))


def all_hold(
    *,
    since: tuple[str, datetime] | None = None,
    until: tuple[str, datetime] | None = None,
    begins: tuple[str, str] | None = None,
    **wanted: str | None,
) -> str | None:
    """Return the predicate that every column with a value has it; None where nothing is wanted.

    :param since: a column, and the earliest time it may have. Files that end before it are not even opened.
    :param until: a column, and the time that it must lie before.
    :param begins: a column, and what its texts begin with.
    """
    parts = [_equal(name, value) for name, value in wanted.items() if value is not None]
    if begins is not None:
        parts.append(f"starts_with({begins[0]}, {_quoted(begins[1])})")
    for limit, sign in ((since, ">="), (until, "<")):
        if limit is not None:
            column, moment = limit
            parts.append(f"{column} {sign} TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}'")
    return " and ".join(parts) or None


def lies_around(places: Mapping[str, tuple[int, int]]) -> str:
    """Return the predicate that an entry is of one of some topics, and has an offset between two, both included."""
    parts = [
        f'({_equal("topic", topic)} and start <= {last} and "end" > {first})'
        for topic, (first, last) in sorted(places.items())
    ]
    return f"({' or '.join(parts)})" if parts else "false"


def both_hold(one: str | None, other: str) -> str:
    """Return the predicate that two hold, the first of which may be missing."""
    return f"{one} and {other}" if one else other


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Turn Delta's errors into ours, which say whether a retry helps.

    :param place: where the table is.
    """
    try:
        yield
    except (CommitFailedError, TableNotFoundError):
        raise
    except Exception as error:
        if not isinstance(error, DeltaError | OSError) and not _is_of_arrow(error):
            raise
        raise _explain(place, error) from error


def _is_of_arrow(error: Exception) -> bool:
    """Tell whether an error is one of reading rows."""
    from pyarrow import ArrowException

    return isinstance(error, ArrowException)


def _explain(place: str, error: Exception) -> StoreUnavailable | StoreRefused | LedgerDamaged:
    text = str(error)
    answer = read_answer(text)
    if answer is not None and answer.is_refusal:
        return StoreRefused(f"the ledger at {place}: {answer.way_out}")
    if isinstance(error, PermissionError):
        return StoreRefused(f"the ledger at {place}: access is denied; correct the folder's rights")
    first_line = text.splitlines()[0] if text else repr(error)
    # Delta read what there is and cannot use it, unless the store failed it on the way.
    if not isinstance(error, OSError) and "Generic S3 error" not in text:
        return LedgerDamaged(place, first_line)
    return StoreUnavailable(f"the ledger: {first_line}")


def _equal(column: str, value: str) -> str:
    return f"{column} = {_quoted(value)}"


def _quoted(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
