"""Cut a text into chunks that overlap, for search by meaning and for language models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pipestream.errors import ModuleFailed
from pipestream.extras import needs_extra
from pipestream.modules.callables import MAX_FAN_OUT
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.options import Options, read_options, schema_of
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.modules.module import ModuleContext

SCHEMA = schema_of(
    {
        "size": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100_000,
            "default": 300,
            "description": "Most units of one chunk, the overlap included.",
        },
        "unit": {
            "enum": ["words", "characters"],
            "default": "words",
            "description": "What size and overlap count. 300 words are about 400 tokens of English.",
        },
        "overlap": {
            "type": "integer",
            "minimum": 0,
            "maximum": 50_000,
            "default": 30,
            "description": "Units that a chunk shares with the one before; at most half of size.",
        },
        "output": {
            "enum": ["documents", "field"],
            "default": "documents",
            "description": "documents: each chunk becomes a document of its own. field: the document continues as one, "
            "with the chunks in custom_fields.chunks.",
        },
        "keep_document": {
            "type": "boolean",
            "default": False,
            "description": "documents: whether the whole document continues too, as the first.",
        },
        "max_chunks": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_FAN_OUT - 1,
            "default": 5_000,
            "description": "Most chunks of one document; one with more fails.",
        },
    }
)
# A word; a piece of a very long one; or one sign of a script that writes no spaces (Chinese, Japanese, Korean).
_UNIT = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]{1,30}")


@declare_module(config_schema=SCHEMA, name="chunks", description="Cuts the text into chunks that overlap.")
def split(document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc]:
    """Cut the body into chunks, at paragraphs and sentences where possible.

    A chunk that is a document has the metadata of the whole, the chunk as body, no blob, and in ``metadata``:
    ``parent_doc_id``, ``chunk_number`` (from 0), ``chunk_count``, ``chunk_start`` and ``chunk_end`` (characters).
    """
    options = read_options(SCHEMA, context.config)
    chunks = cut(document.search_metadata.body, options)
    if options["output"] == "field":
        json_format.ParseDict({"chunks": chunks}, document.search_metadata.custom_fields)
        return [document]
    parts = [_part(document, chunk, len(chunks)) for chunk in chunks]
    return [document, *parts] if options["keep_document"] else parts


def cut(text: str, options: Options) -> list[dict[str, Any]]:
    """Return the chunks of a text, each with number, start, end and text.

    :raises ModuleFailed: there is no text, or more chunks than ``max_chunks``.
    """
    with needs_extra("documents"):
        from semchunk.semchunk import chunk

    if options["overlap"] * 2 > options["size"]:
        raise ModuleFailed("the node's config is not valid: overlap is more than half of size")
    if not text.strip():
        raise ModuleFailed("the document has no text; parse it first")
    count = len if options["unit"] == "characters" else _count_words
    pieces, places = chunk(
        text,
        options["size"],
        count,
        offsets=True,
        overlap=options["overlap"] or None,
        memoize=False,
    )
    if len(pieces) > options["max_chunks"]:
        raise ModuleFailed(f"the text gives {len(pieces)} chunks, and max_chunks is {options['max_chunks']}")
    return [
        {"number": number, "start": start, "end": end, "text": piece}
        for number, (piece, (start, end)) in enumerate(zip(pieces, places, strict=True))
    ]


def _count_words(text: str) -> int:
    return len(_UNIT.findall(text))


def _part(document: PipeDoc, chunk: dict[str, Any], count: int) -> PipeDoc:
    part = PipeDoc()
    part.CopyFrom(document)
    part.ClearField("blob_bag")
    part.doc_id = f"{document.doc_id}-chunk-{chunk['number']}"
    found = part.search_metadata
    found.body = chunk["text"]
    found.content_length = len(chunk["text"])
    found.metadata["parent_doc_id"] = document.doc_id
    found.metadata["chunk_count"] = str(count)
    for name in ("number", "start", "end"):
        found.metadata[f"chunk_{name}"] = str(chunk[name])
    return part
