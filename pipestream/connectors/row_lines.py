"""Lines of a large file, read one by one, and where the reader stands, so that a later run continues there."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

_HEAD_BYTES = 4_096


class RowTooLong(ValueError):
    """A row is longer than allowed."""


def open_rows(file: Path) -> IO[bytes]:
    """Open a file of rows; one that ends in ``.gz`` is decompressed as it is read."""
    return cast("IO[bytes]", gzip.open(file, "rb")) if file.suffix == ".gz" else file.open("rb")


class Lines:
    """Reads lines, each with its line end, and never more of one than a row may have."""

    def __init__(self, file: IO[bytes], max_row_bytes: int) -> None:
        self._file = file
        self._max_row_bytes = max_row_bytes
        self.offset = file.tell()
        """After the last line that was read."""
        self._row: list[bytes] = []
        self._row_bytes = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> bytes:
        """Return the next line.

        :raises RowTooLong: with this line, the row is too long.
        """
        line = self._file.readline(self._max_row_bytes - self._row_bytes + 1)
        if not line:
            raise StopIteration
        self.offset += len(line)
        self._row.append(line)
        self._row_bytes += len(line)
        if self._row_bytes > self._max_row_bytes:
            raise RowTooLong(f"longer than max_row_bytes, {self._max_row_bytes}")
        return line

    def begin_row(self) -> None:
        """Count the bytes of the next row from zero."""
        self._row, self._row_bytes = [], 0

    def row(self) -> bytes:
        """Return the bytes of the row that was read last."""
        return b"".join(self._row)

    def skip_line(self) -> None:
        """Leave the rest of a line that is too long."""
        part = self._row[-1]
        while part and not part.endswith(b"\n"):
            part = self._file.readline(64 * 1024)
            self.offset += len(part)


@dataclass(slots=True)
class Place:
    """Where a reader stands in a file, with enough of what is before it to notice that the file was replaced."""

    offset: int = 0
    rows: int = 0
    failed: int = 0
    head: str = ""
    """A digest of the first bytes of the file, up to 4 KB."""
    head_bytes: int = 0
    last: str = ""
    """A digest of the last row; empty if it was too long to be read."""
    last_bytes: int = 0
    _head: bytes = b""

    def advance(self, row: bytes, offset: int) -> None:
        """Step over a row, of which only the first part is given if it was too long."""
        if self.head_bytes == self.offset < _HEAD_BYTES:
            self._head = (self._head + row)[:_HEAD_BYTES]
            self.head, self.head_bytes = _digest(self._head), len(self._head)
        is_whole = offset - self.offset == len(row)
        self.last, self.last_bytes = (_digest(row), len(row)) if is_whole else ("", 0)
        self.offset = offset
        self.rows += 1

    def state(self, **more: Any) -> dict[str, Any]:
        """Return it as a memory keeps it."""
        return {
            "offset": self.offset,
            "rows": self.rows,
            "failed": self.failed,
            "head": self.head,
            "head_bytes": self.head_bytes,
            "last": self.last,
            "last_bytes": self.last_bytes,
            **more,
        }


def find_place(file: IO[bytes], state: Mapping[str, Any] | None) -> Place:
    """Return where to continue, and seek there: where the last run ended, if what is before it is still the same.

    The first 4 KB and the last row before the place are compared, not everything, which may be large.
    """
    if state and state["offset"]:
        file.seek(0)
        head = file.read(state["head_bytes"])
        file.seek(state["offset"] - state["last_bytes"])
        last = file.read(state["last_bytes"])
        is_same = _digest(head) == state["head"] and (not state["last"] or _digest(last) == state["last"])
        if is_same and file.tell() == state["offset"]:
            known = {name: state[name] for name in ("offset", "rows", "failed", "head", "head_bytes")}
            return Place(**known, last=state["last"], last_bytes=state["last_bytes"], _head=head)
    file.seek(0)
    return Place()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
