"""Text and metadata of PDF files, by PDFium.

PDFium is native code. A file that makes it crash ends the process that reads it: name this module with ``runtime:``
instead of ``python:``, and that process is one of its own.
"""

from __future__ import annotations

import re
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed
from pipestream.extras import needs_extra
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.extract import Extract, beyond_limit, read_document
from pipestream.modules.documents.options import LIMITS, PAGES, read_options, schema_of

with needs_extra("documents"):
    import pypdfium2
    from pypdfium2 import raw

if TYPE_CHECKING:
    from pipestream.modules.documents.content import Content
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS, PAGES)

# PDFium has global state: only one thread at a time may call it.
_PDFIUM = threading.Lock()
_DATE = re.compile(r"D?:?(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?(?:([+-])(\d{2})'?(\d{2})?'?|Z.*)?")
_HEADER_WITHIN = 1024
"""The standard lets the header begin anywhere in the first kilobyte."""


@declare_module(is_parser=True, config_schema=SCHEMA, name="pdf", description="Text and metadata of PDF files.")
def extract(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read the text, title, author, keywords and dates of a PDF file."""
    return read_document(document, read_pdf, read_options(SCHEMA, context.config))


def read_pdf(content: Content, options: Options) -> Extract:
    """Return what a PDF file contains.

    :raises ModuleFailed: it is broken or encrypted, or has more pages than ``max_pages``.
    """
    if b"%PDF-" not in content.data[:_HEADER_WITHIN]:
        raise ModuleFailed("not a PDF: it does not begin with %PDF-")
    with _PDFIUM:
        try:
            opened = pypdfium2.PdfDocument(content.data)
        except pypdfium2.PdfiumError as error:
            if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
                raise ModuleFailed("the PDF is encrypted and needs a password") from error
            raise ModuleFailed(f"the PDF is broken: {error}") from error
        with closing(opened):
            return _read(opened, options)


def _read(opened: pypdfium2.PdfDocument, options: Options) -> Extract:
    pages, limit = len(opened), options["max_pages"]
    problems = []
    if pages > limit:
        problems.append(beyond_limit(f"the PDF has {pages} pages, and max_pages is {limit}", options))
    texts, length = [], 0
    for number in range(min(pages, limit)):
        try:
            text = _page_text(opened, number)
        except pypdfium2.PdfiumError as error:
            problems.append(f"page {number + 1} cannot be read: {error}")
            continue
        texts.append(text)
        length += len(text)
        if length > options["max_characters"]:
            break  # the caller sees that it is too long
    if pages and len(problems) >= pages:
        raise ModuleFailed(f"the PDF is broken: {problems[0]}")
    found = opened.get_metadata_dict()
    return Extract(
        text="\n\n".join(texts),
        title=found.get("Title", ""),
        author=found.get("Author", ""),
        keywords=re.split(r"[;,]", found.get("Keywords", "")),
        created=parse_date(found.get("CreationDate", "")),
        modified=parse_date(found.get("ModDate", "")),
        fields={"pages": pages} | {key.lower(): found[key] for key in ("Subject", "Creator", "Producer") if found[key]},
        problems=problems,
    )


def _page_text(opened: pypdfium2.PdfDocument, number: int) -> str:
    with closing(opened[number]) as page, closing(page.get_textpage()) as text_page:
        text: str = text_page.get_text_range()
        return text


def parse_date(text: str) -> datetime | None:
    """Return the time of a PDF's date, e.g. ``D:20250131080000+01'00'``; None if it is not one."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset) if sign else UTC
        return datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=zone
        )
    except ValueError:
        return None
