"""Modules that read blobs, and one that does not; each notes in the document which contents it saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream import declare_module
from pipestream.engine.blobs import blobs_of
from pipestream.modules.module import Answer, HopStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = {
    "type": "object",
    "properties": {"pages": {"type": "integer", "minimum": 1}, "ocr": {"type": "object", "required": ["language"]}},
    "additionalProperties": False,
}


def look(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Write the contents of all blobs into the body, a reference as the word REF."""
    seen = [blob.data.decode() if blob.WhichOneof("content") == "data" else "REF" for blob in blobs_of(document)]
    document.search_metadata.body = ",".join([*filter(None, [document.search_metadata.body]), *seen])
    return document


@declare_module(is_parser=True, config_schema=SCHEMA)
def parse(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """As ``look``, declared as a parser."""
    return look(document, context)


@declare_module(is_parser=True)
def skip(document: PipeDoc, context: ModuleContext) -> Answer:
    """Skip the document."""
    return Answer([look(document, context)], HopStatus.SKIPPED)


@declare_module(is_parser=True)
def rewrite(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Change the content of the first blob."""
    blobs_of(document)[0].data += b" changed"
    return document


@declare_module(is_parser=True)
def take_apart(document: PipeDoc, context: ModuleContext) -> Iterator[PipeDoc]:
    """Return two documents, both with all blobs."""
    for number in range(2):
        document.search_metadata.title = f"part {number}"
        yield document
