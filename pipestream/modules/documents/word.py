"""Text and metadata of Word files (.docx)."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleFailed
from pipestream.extras import needs_extra
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.extract import Extract, read_document
from pipestream.modules.documents.options import LIMITS, read_options, schema_of
from pipestream.modules.documents.zips import OLE, is_encrypted_office, open_zip

with needs_extra("documents"):
    import docx
    from docx.opc.exceptions import OpcError
    from docx.oxml.exceptions import InvalidXmlError
    from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pipestream.modules.documents.content import Content
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS)

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_PARAGRAPH, _ROW, _CELL = f"{_WORD}p", f"{_WORD}tr", f"{_WORD}tc"
_TEXT, _TAB, _BREAKS = f"{_WORD}t", f"{_WORD}tab", (f"{_WORD}br", f"{_WORD}cr")


@declare_module(is_parser=True, config_schema=SCHEMA, name="word", description="Text and metadata of Word files.")
def extract(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read the text (tables and text boxes too), title, author, keywords and dates of a Word file."""
    return read_document(document, read_word, read_options(SCHEMA, context.config))


def read_word(content: Content, options: Options) -> Extract:
    """Return what a Word file contains: the body in reading order, a table row a line.

    :raises ModuleFailed: it is not a .docx file, or is broken, encrypted or too large.
    """
    if is_encrypted_office(content.data):
        raise ModuleFailed("the Word file is encrypted and needs a password")
    if content.data.startswith(OLE):
        raise ModuleFailed("a Word 97 file (.doc) cannot be read; save it as .docx")
    with open_zip(content.data, "a Word file", options) as opened:
        try:
            assert opened.fp is not None, "it was opened from memory"
            opened.fp.seek(0)
            file: Any = docx.Document(opened.fp)
            properties = file.core_properties
            return Extract(
                text="\n".join(_lines(file.element.body)),
                title=properties.title,
                author=properties.author,
                language=properties.language.partition("-")[0].lower(),
                keywords=re.split(r"[;,]", properties.keywords),
                created=_time(properties, "created"),
                modified=_time(properties, "modified"),
                fields={name: value for name in ("subject", "category") if (value := getattr(properties, name))},
            )
        except (OpcError, InvalidXmlError, etree.LxmlError, zipfile.BadZipFile) as error:
            raise ModuleFailed(f"the Word file is broken: {error}") from error
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            # What python-docx raises where a part of the package is missing or is not what it should be.
            raise ModuleFailed(f"the Word file is broken: {type(error).__name__}: {error}") from error


def _time(properties: Any, name: str) -> datetime | None:
    try:
        moment: datetime | None = getattr(properties, name)
    except ValueError:
        return None
    return moment


def _lines(body: Any) -> Iterator[str]:
    # A text box stands twice in a file: once for new versions of Word, once for old ones.
    for twin in list(body.iter(_FALLBACK)):
        twin.getparent().remove(twin)
    rows = 0
    for event, element in etree.iterwalk(body, events=("start", "end"), tag=(_PARAGRAPH, _ROW)):
        is_row = element.tag == _ROW
        if is_row:
            rows += 1 if event == "start" else -1
        if event == "start" and rows == (1 if is_row else 0):  # not what is inside a row that was read as a whole
            yield "\t".join(_text(cell) for cell in element.iterchildren(_CELL)) if is_row else _text(element)


def _text(element: Any) -> str:
    parts = []
    for part in element.iter(_TEXT, _TAB, *_BREAKS, _PARAGRAPH):
        if part.tag == _TEXT:
            parts.append(part.text or "")
        elif part.tag == _TAB:
            parts.append("\t")
        elif part is not element:
            parts.append("\n" if parts else "")
    return "".join(parts)
