"""Documents from files of rows, JSON Lines or CSV: a document a row. A file that grew is continued at its old end."""

from __future__ import annotations

import csv
import fnmatch
import json
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from pydantic import Field, field_validator

from pipestream.connectors.connector import Found, LeftOut, Memory, Seen, Unreadable
from pipestream.connectors.options import read_options
from pipestream.connectors.row_lines import Lines, Place, RowTooLong, find_place, open_rows
from pipestream.connectors.rows import RowOptions, row_document
from pipestream.errors import SourceUnreadable

if TYPE_CHECKING:
    from pipestream.plugins import PluginContext
    from pipestream.wire import PipeDoc

_MAX_ROW_BYTES = 16 * 1024 * 1024
_UNCHANGED = "the file is unchanged since an earlier run"
_UNCHANGED_BAD = "the file is unchanged since an earlier run, which could not read some of its rows"


class RowFileOptions(RowOptions):
    """What both kinds have in common."""

    limits: ClassVar[frozenset[str]] = frozenset({"max_documents", "max_row_bytes"})

    path: str = Field(
        min_length=1, description="A file, or a folder of them; a relative path starts from PIPESTREAM_SOURCES_FOLDER."
    )
    max_row_bytes: int = Field(_MAX_ROW_BYTES, ge=1, description="Longer rows are reported and not taken.")


class JsonLinesOptions(RowFileOptions):
    """The options of the kind ``jsonl``."""

    kind: ClassVar[str] = "jsonl"

    pattern: str = Field("*.jsonl*", description="In a folder: only files whose names match. .gz is decompressed.")


class CsvOptions(RowFileOptions):
    """The options of the kind ``csv``."""

    kind: ClassVar[str] = "csv"

    pattern: str = Field("*.csv*", description="In a folder: only files whose names match. .gz is decompressed.")
    delimiter: str = Field(",", min_length=1, max_length=1, description="What stands between two columns.")
    columns: list[str] = Field([], description="The names of the columns, of files whose first row does not say them.")

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, given: list[str]) -> list[str]:
        if len(set(given)) < len(given):
            raise ValueError("a column stands there twice")
        return given


class Broken(Exception):
    """The rest of a file cannot be read."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was read of one row: its values, or why there are none."""

    values: Mapping[str, Any] | None
    problem: str = ""


class RowReader(ABC):
    """Reads the rows of one file."""

    @abstractmethod
    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield the rows from where the lines begin.

        :raises Broken: the rest of the file cannot be read.
        """


class JsonLinesReader(RowReader):
    """An object a line. Empty lines are passed over."""

    def rows(self, lines: Lines) -> Iterator[Row]:
        while True:
            lines.begin_row()
            try:
                line = next(lines)
            except StopIteration:
                return
            except RowTooLong as error:
                lines.skip_line()
                yield Row(None, str(error))
                continue
            yield self._row(line)

    @staticmethod
    def _row(line: bytes) -> Row:
        if not line.strip():
            return Row(None)
        try:
            values = json.loads(line, parse_constant=_refuse_constant)
        except UnicodeDecodeError:
            return Row(None, "not UTF-8")
        except (ValueError, RecursionError) as error:
            return Row(None, f"not JSON: {error}")
        return Row(values) if isinstance(values, dict) else Row(None, "not a JSON object")


class CsvReader(RowReader):
    """Columns with quotes as RFC 4180 has them; a quoted value may hold line ends."""

    def __init__(self, options: CsvOptions, columns: Sequence[str]) -> None:
        self._delimiter = options.delimiter
        self._columns = columns
        # A limit of the whole process, which is only ever raised here; max_row_bytes is the one that counts.
        csv.field_size_limit(max(csv.field_size_limit(), options.max_row_bytes))

    def rows(self, lines: Lines) -> Iterator[Row]:
        texts = (line.decode(errors="surrogateescape") for line in lines)
        while True:
            lines.begin_row()
            try:
                # A reader of its own for each row, because one that met an error is of no more use.
                values = next(csv.reader(texts, delimiter=self._delimiter, strict=True))
            except StopIteration:
                return
            except RowTooLong as error:
                raise Broken(f"{error}; is a quote not closed? Nothing behind it is read") from None
            except csv.Error as error:
                if "end of data" in str(error):
                    raise Broken("a quote is not closed; close it, or wait until the file is written") from None
                yield Row(None, f"not CSV: {error}")
                continue
            yield self._row(values)

    def _row(self, values: Sequence[str]) -> Row:
        if not values:
            return Row(None)
        if len(values) != len(self._columns):
            return Row(None, f"{len(values)} columns instead of {len(self._columns)}")
        try:
            "".join(values).encode()
        except UnicodeEncodeError:  # by what stands for bytes that were not UTF-8
            return Row(None, "not UTF-8")
        return Row(dict(zip(self._columns, values, strict=True)))


class RowFilesConnector:
    """Every row of the files, in the order of the files' paths."""

    def __init__(self, options: JsonLinesOptions | CsvOptions, sources_folder: Path) -> None:
        self._options = options
        self._root = sources_folder / options.path
        self.scope = options.scope
        self.max_documents = options.max_documents

    def changes(self, memory: Memory) -> Iterator[Found]:
        root = self._root.resolve()
        if not root.exists():
            raise SourceUnreadable(f"{self._options.kind} connector: there is no {self._root}; correct the path")
        names = [root.name] if root.is_file() else self._names(root)
        folder = root.parent if root.is_file() else root
        for name in names:
            try:
                yield from self._file(folder, name, memory)
            except OSError as error:
                yield Unreadable(name, error.strerror or str(error))
            except (EOFError, zlib.error) as error:  # a gzip file that was cut, or whose bytes are damaged
                yield Unreadable(name, str(error))

    def _names(self, root: Path) -> list[str]:
        found = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if not name.startswith(".") and fnmatch.fnmatchcase(name, self._options.pattern):
                    found.append(Path(folder, name).relative_to(root).as_posix())
        return sorted(found, key=lambda name: name.encode(errors="surrogateescape"))

    def _file(self, folder: Path, name: str, memory: Memory) -> Iterator[Found]:
        file = folder / name
        shown = name.encode(errors="replace").decode()
        if not file.resolve(strict=True).is_relative_to(folder):
            yield Unreadable(shown, "a symbolic link that leads out of the folder")
            return
        if not file.is_file():  # opening a pipe would wait for whoever writes to it
            yield Unreadable(shown, "neither a file nor a link to one")
            return
        state = memory.recall([shown]).get(shown)
        found = file.stat()
        version = {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
        if state and all(state.get(key) == value for key, value in version.items()):
            yield LeftOut(shown, _UNCHANGED_BAD if state["failed"] else _UNCHANGED)
            return
        with open_rows(file) as opened:
            place = find_place(opened, state)
            try:
                yield from self._rows(opened, shown, place)
            except Broken as error:
                yield Unreadable(f"{shown} row {place.rows + 1}", str(error))
                return
        yield Seen(shown, place.state(**version))

    def _rows(self, file: IO[bytes], name: str, place: Place) -> Iterator[Found]:
        reader = self._reader(file, place)
        lines = Lines(file, self._options.max_row_bytes)
        for number, row in enumerate(reader.rows(lines), place.rows + 1):
            data = lines.row()
            found = self._take(row, name, number)
            if found is not None:
                place.failed += isinstance(found, Unreadable)
                yield found
            if not data.endswith(b"\n") and lines.offset - place.offset == len(data):
                # Somebody may be in the middle of writing it: the next run reads it again.
                return
            place.advance(data, lines.offset)
            yield Seen(name, place.state())

    def _take(self, row: Row, name: str, number: int) -> PipeDoc | Unreadable | None:
        problem = row.problem
        if row.values is not None:
            try:
                return row_document(row.values, self._options, f"{name}#{number}", f"file:///{quote(name)}#{number}")
            except ValueError as error:
                problem = str(error)
        return Unreadable(f"{name} row {number}", problem) if problem else None

    def _reader(self, file: IO[bytes], place: Place) -> RowReader:
        """Return what reads the rows, with the file at the place; a first row that names the columns is passed over."""
        options = self._options
        if isinstance(options, JsonLinesOptions):
            return JsonLinesReader()
        if options.columns:
            return CsvReader(options, options.columns)
        file.seek(0)
        lines = Lines(file, options.max_row_bytes)
        columns = _read_header(lines, options)
        if place.offset == 0:
            place.advance(lines.row(), lines.offset)
        file.seek(place.offset)
        return CsvReader(options, columns)


def _read_header(lines: Lines, options: CsvOptions) -> list[str]:
    try:
        columns = next(
            csv.reader((line.decode("utf-8-sig") for line in lines), delimiter=options.delimiter, strict=True)
        )
    except StopIteration:
        return []
    except (csv.Error, ValueError) as error:
        raise Broken(f"the first row is to name the columns: {error}") from None
    if len(set(columns)) < len(columns):
        raise Broken("the first row names a column twice; rename one, or name the columns in the option columns")
    return columns


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def open_jsonl(options: Mapping[str, Any], context: PluginContext) -> RowFilesConnector:
    """Make the connector of kind ``jsonl``."""
    return RowFilesConnector(read_options(JsonLinesOptions, options), context.settings.sources_folder)


def open_csv(options: Mapping[str, Any], context: PluginContext) -> RowFilesConnector:
    """Make the connector of kind ``csv``."""
    return RowFilesConnector(read_options(CsvOptions, options), context.settings.sources_folder)
