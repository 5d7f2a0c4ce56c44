"""How many cells the sheets of a workbook span, before a reader makes room for all of them.

The reader allocates the rectangle around the cells of a sheet at once. A file of a few hundred bytes with one cell in
each corner of the largest sheet would need some 400 GB, and ends the process.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed

if TYPE_CHECKING:
    from pipestream.modules.documents.options import Options

_SHEET = re.compile(r"xl/worksheets/.*\.xml$", re.IGNORECASE)
# A cell's or a row's place: r="XFD1048576", r="7". The names of columns have up to three letters.
_PLACE = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]{0,7})(\d{1,12})["']""")
_REPEATS = re.compile(rb"""number-(columns|rows)-repeated\s*=\s*["'](\d{1,12})["']""")
# Rows and cells of an OpenDocument table, in order. The reader knows them by these names with this prefix.
_ROW_OR_CELL = re.compile(rb"<table:(table|table-row|table-cell|covered-table-cell)(\s[^>]*)?>")
_VALUE = re.compile(rb"value-type\s*=|table:formula\s*=")


def check_sizes(opened: zipfile.ZipFile, options: Options) -> None:
    """Refuse a workbook with a sheet that spans more than ten times ``max_cells``.

    Ten times, because a sheet with a few cells far down is common, and ``on_limit`` decides about the others.

    :raises ModuleFailed: a sheet is that large, or cannot be unpacked.
    """
    limit = int(options["max_cells"]) * 10
    for name in opened.namelist():
        try:
            if _SHEET.match(name):
                cells = _excel_cells(opened.read(name))
            elif name == "content.xml":
                cells = _ods_cells(opened.read(name))
            else:
                continue
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ModuleFailed(f"the workbook is broken: {name}: {error}") from error
        if cells > limit:
            raise ModuleFailed(f"{name} spans {cells} cells, and max_cells is {options['max_cells']}")


def _excel_cells(source: bytes) -> int:
    rows = columns = 1
    for letters, number in _PLACE.findall(source):
        rows = max(rows, int(number))
        columns = max(columns, _column(letters))
    return rows * columns


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number


def _ods_cells(source: bytes) -> int:
    """Return the size of the rectangles around the cells with a value; empty ones around them are free."""
    total = row = column = row_repeats = 0
    area = _Rectangle()
    for tag, attributes in _ROW_OR_CELL.findall(source):
        if tag == b"table":
            total += area.cells
            area, row, row_repeats = _Rectangle(), 0, 0
        elif tag == b"table-row":
            row += row_repeats
            row_repeats, column = _repeats(attributes, b"rows"), 0
        else:
            repeats = _repeats(attributes, b"columns")
            if _VALUE.search(attributes):
                area.include(row, column)
                area.include(row + row_repeats - 1, column + repeats - 1)
            column += repeats
    return total + area.cells


@dataclass(slots=True)
class _Rectangle:
    top: int | None = None
    bottom: int = 0
    left: int = 0
    right: int = 0

    def include(self, row: int, column: int) -> None:
        if self.top is None:
            self.top, self.bottom, self.left, self.right = row, row, column, column
        self.top, self.bottom = min(self.top, row), max(self.bottom, row)
        self.left, self.right = min(self.left, column), max(self.right, column)

    @property
    def cells(self) -> int:
        return 0 if self.top is None else (self.bottom - self.top + 1) * (self.right - self.left + 1)


def _repeats(attributes: bytes, what: bytes) -> int:
    return next((int(count) for kind, count in _REPEATS.findall(attributes) if kind == what), 1)
