"""Small PDF, Word and Excel files, written byte by byte, so that the samples need no library.

The same text gives the same bytes.
"""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TYPES = "application/vnd.openxmlformats-officedocument"
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_LINE_CHARACTERS = 88
_LINES_PER_PAGE = 52


def pdf_file(title: str, author: str, paragraphs: Sequence[str], created: str = "D:20250512080000+02'00'") -> bytes:
    """Return a PDF of as many pages as the text needs. Its fonts know only the letters of Latin-1."""
    lines = [line for paragraph in [title, *paragraphs] for line in [*_wrapped(paragraph), ""]]
    pages = [lines[start : start + _LINES_PER_PAGE] for start in range(0, len(lines), _LINES_PER_PAGE)]
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    info = f"<< /Title {_pdf_text(title)} /Author {_pdf_text(author)} /CreationDate ({created}) >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        info.encode("latin-1", "replace"),
    ]
    for number, page in enumerate(pages):
        shown = "".join(f"{_pdf_text(line)} Tj T*\n" for line in page)
        content = f"BT /F1 10 Tf 14 TL 50 780 Td\n{shown}ET".encode("latin-1", "replace")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {6 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    return _pdf(objects)


def word_file(title: str, author: str, paragraphs: Sequence[str], rows: Sequence[Sequence[str]] = ()) -> bytes:
    """Return a Word file (.docx) with paragraphs and, if there are rows, a table."""
    text = "".join(_word_paragraph(paragraph) for paragraph in [title, *paragraphs])
    cells = "".join(
        "<w:tr>" + "".join(f"<w:tc>{_word_paragraph(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in rows
    )
    table = f"<w:tbl><w:tblPr/><w:tblGrid/>{cells}</w:tbl>" if rows else ""
    document = f'{_XML}<w:document xmlns:w="{_WORD}"><w:body>{text}{table}<w:sectPr/></w:body></w:document>'
    main = f"{_TYPES}.wordprocessingml.document.main+xml"
    return _package("word/document.xml", main, document, title, author, {})


def excel_file(title: str, author: str, sheets: Mapping[str, Sequence[Sequence[str | float]]]) -> bytes:
    """Return an Excel file (.xlsx) with sheets of text and numbers."""
    names = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number}"/>'
        for number, name in enumerate(sheets, start=1)
    )
    book = f'{_XML}<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>'
    parts = {f"xl/worksheets/sheet{number}.xml": _sheet(rows) for number, rows in enumerate(sheets.values(), start=1)}
    return _package("xl/workbook.xml", f"{_TYPES}.spreadsheetml.sheet.main+xml", book, title, author, parts)


def zip_file(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a zip file with these entries, the same bytes each time."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            # OpenDocument asks for it, so that a file's kind can be read from its first bytes.
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), content, method)
    return made.getvalue()


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= _LINE_CHARACTERS:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _pdf_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"({escaped})"


def _pdf(objects: Sequence[bytes]) -> bytes:
    data = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(data)


def _word_paragraph(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def _sheet(rows: Sequence[Sequence[str | float]]) -> str:
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = "".join(_excel_cell(value, f"{chr(65 + column)}{number}") for column, value in enumerate(row))
        lines.append(f'<row r="{number}">{cells}</row>')
    return f'{_XML}<worksheet xmlns="{_SHEET}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _excel_cell(value: str | float, place: str) -> str:
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def _package(main: str, main_type: str, document: str, title: str, author: str, parts: Mapping[str, str]) -> bytes:
    """Return an Office file: a zip of the main part, the properties, other parts and what relates them."""
    sheet_type = f"{_TYPES}.spreadsheetml.worksheet+xml"
    overrides = "".join(f'<Override PartName="/{name}" ContentType="{sheet_type}"/>' for name in parts)
    types = (
        f'{_XML}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/><Override PartName="/{main}" '
        f'ContentType="{main_type}"/><Override PartName="/docProps/core.xml" '
        f'ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>{overrides}</Types>'
    )
    core = (
        f'{_XML}<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" '
        f'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><dc:title>{escape(title)}</dc:title>'
        f"<dc:creator>{escape(author)}</dc:creator>"
        f'<dcterms:created xsi:type="dcterms:W3CDTF">2025-05-12T06:00:00Z</dcterms:created></cp:coreProperties>'
    )
    folder, _, name = main.rpartition("/")
    inner = {f"rId{number}": part.removeprefix(f"{folder}/") for number, part in enumerate(parts, start=1)}
    found = {"[Content_Types].xml": types, "_rels/.rels": _relations({"rId1": main}, "officeDocument"), main: document}
    if inner:
        found[f"{folder}/_rels/{name}.rels"] = _relations(inner, "worksheet")
    return zip_file(found | dict(parts) | {"docProps/core.xml": core})


def _relations(targets: Mapping[str, str], kind: str) -> str:
    listed = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{target}"/>' for name, target in targets.items()
    )
    if kind == "officeDocument":
        properties = f"{_PACKAGE}/relationships/metadata/core-properties"
        listed += f'<Relationship Id="rIdP" Type="{properties}" Target="docProps/core.xml"/>'
    return f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">{listed}</Relationships>'
