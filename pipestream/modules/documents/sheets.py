"""Text and shape of tables: Excel (.xlsx, .xls), OpenDocument (.ods) and CSV."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleFailed
from pipestream.extras import needs_extra
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.content import decode
from pipestream.modules.documents.extract import Extract, beyond_limit, read_document
from pipestream.modules.documents.options import CELLS, ENCODING, LIMITS, read_options, schema_of
from pipestream.modules.documents.sheet_sizes import check_sizes
from pipestream.modules.documents.zips import OLE, is_encrypted_office, open_zip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.modules.documents.content import Content
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS, CELLS, ENCODING)

_TABS = ("text/tab-separated-values",)


@declare_module(is_parser=True, config_schema=SCHEMA, name="sheets", description="Text of Excel, ODS and CSV files.")
def extract(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read the cells of a table as text, a row a line, and its sheets or columns."""
    return read_document(document, read_table, read_options(SCHEMA, context.config))


def read_table(content: Content, options: Options) -> Extract:
    """Return what a workbook or a CSV file contains, by its first bytes.

    :raises ModuleFailed: it is broken, encrypted or too large.
    """
    if content.data.startswith((b"PK\x03\x04", OLE)):
        return read_workbook(content, options)
    return read_csv(content, options)


def read_workbook(content: Content, options: Options) -> Extract:
    """Return the cells of all sheets of an Excel or ODS file."""
    with needs_extra("documents"):
        import python_calamine as calamine

    data = content.data
    if is_encrypted_office(data):
        raise ModuleFailed("the workbook is encrypted and needs a password")
    fields: dict[str, Any] = {}
    if not data.startswith(OLE):
        with open_zip(data, "an Excel or ODS file", options) as opened:
            check_sizes(opened, options)
            fields = _properties(opened)
    lines, sheets, problems, cells = [], [], [], 0
    try:
        with calamine.CalamineWorkbook.from_filelike(io.BytesIO(data)) as book:
            for name in book.sheet_names:
                sheet = book.get_sheet_by_name(name)
                cells += sheet.height * sheet.width
                if cells > options["max_cells"]:
                    limit = options["max_cells"]
                    problems.append(
                        beyond_limit(f"the sheets up to {name!r} have {cells} cells, and max_cells is {limit}", options)
                    )
                    break
                rows = sheet.to_python()
                sheets.append({"name": name, "rows": len(rows), "columns": sheet.width})
                lines += [name, *("\t".join(_cell(value) for value in row).rstrip() for row in rows), ""]
    except calamine.PasswordError as error:
        raise ModuleFailed("the workbook is encrypted and needs a password") from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise ModuleFailed(f"the workbook is broken: {error}") from error
    has_cells = any(sheet["rows"] for sheet in sheets)
    return Extract(
        text="\n".join(lines) if has_cells else "",
        title=fields.pop("title", ""),
        author=fields.pop("author", ""),
        fields={"sheets": sheets},
        problems=problems,
    )


def read_csv(content: Content, options: Options) -> Extract:
    """Return the rows of a CSV file; the first one names the columns.

    :raises ModuleFailed: it is not text, or a row has another number of cells than the header.
    """
    text = decode(content, options["encoding"])
    delimiter = "\t" if content.media_type in _TABS else ","
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error as error:
        raise ModuleFailed(f"not CSV: {error}") from error
    if not rows:
        raise ModuleFailed("not a table: it has no header")
    header, *records = rows
    for number, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise ModuleFailed(f"not a table: row {number} has {len(record)} cells, the header {len(header)}")
    problems: Sequence[str] = ()
    limit = options["max_cells"]
    if len(rows) * len(header) > limit:
        problems = [beyond_limit(f"the table has {len(rows) * len(header)} cells, and max_cells is {limit}", options)]
        rows = rows[: max(1, limit // len(header))]
    body = "\n".join(" ".join(row) for row in rows)
    return Extract(text=body, fields={"columns": header, "rows": len(records)}, problems=problems)


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # Excel has no whole numbers, and its reader shows 12.0
    return str(value).replace("\n", " ")


_TITLE = re.compile(rb"<dc:title>([^<]{0,2000})</dc:title>")
_CREATOR = re.compile(rb"<dc:creator>([^<]{0,2000})</dc:creator>")


def _properties(opened: zipfile.ZipFile) -> dict[str, Any]:
    """Return title and author, which the reader of workbooks does not offer."""
    from html import unescape

    found = {}
    for name in ("docProps/core.xml", "meta.xml"):
        try:
            source = opened.read(name)
        except (KeyError, zipfile.BadZipFile, ValueError):
            continue
        for key, pattern in (("title", _TITLE), ("author", _CREATOR)):
            if match := pattern.search(source):
                found[key] = unescape(match[1].decode("utf-8", "replace"))
    return found
