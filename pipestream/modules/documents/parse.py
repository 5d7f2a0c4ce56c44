"""One parser for all kinds: it finds the kind of each file and reads it accordingly."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pipestream.modules.declare import declare_module
from pipestream.modules.documents.content import contents_of
from pipestream.modules.documents.extract import Extract, Reader, read_document
from pipestream.modules.documents.kinds import kind_of
from pipestream.modules.documents.options import CELLS, ENCODING, LIMITS, MAIL, PAGES, read_options, schema_of

if TYPE_CHECKING:
    from pipestream.modules.documents.content import Content
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS, PAGES, CELLS, ENCODING, MAIL)

# By name: a graph of mails needs neither PDFium nor its memory.
_READERS = {
    "CSV": "sheets:read_csv",
    "HTML": "html:read_html",
    "JSON": "text:read_json",
    "EMAIL": "mail:read_mail",
    "MARKDOWN": "text:read_markdown",
    "PDF": "pdf:read_pdf",
    "TABLE": "sheets:read_workbook",
    "TEXT": "text:read_text",
    "WORD": "word:read_word",
}


@declare_module(is_parser=True, config_schema=SCHEMA, name="parse", description="Text and metadata of all known kinds.")
def parse(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read the text and the metadata of a document of any known kind, and set its ``document_type``."""
    options = read_options(SCHEMA, context.config)
    document.search_metadata.document_type = kind_of(contents_of(document, options)[0])
    return read_document(document, _read, options)


def _read(content: Content, options: Options) -> Extract:
    module, _, function = _READERS[kind_of(content)].partition(":")
    read: Reader = getattr(import_module(f"pipestream.modules.documents.{module}"), function)
    return read(content, options)
