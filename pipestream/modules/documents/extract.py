"""What was read from a file, and how it becomes part of a document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pipestream.errors import ModuleFailed
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as core_types
from pipestream.modules.documents.content import Content, contents_of
from pipestream.modules.module import Answer, HopStatus
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from pipestream.modules.documents.options import Options

_MAX_TITLE = 500
_MAX_KEYWORDS = 100
# Allowed in text besides what can be printed. All other control characters come from broken files.
_LAYOUT = {9: "\t", 10: "\n"}
_CONTROLS = {code: None for code in [*range(32), *range(127, 160)] if code not in _LAYOUT} | {13: "\n", 0x85: "\n"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside a file."""

    filename: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Extract:
    """What was read from one file. An empty value means that the file does not say."""

    text: str
    title: str = ""
    author: str = ""
    language: str = ""
    keywords: Sequence[str] = ()
    created: datetime | None = None
    modified: datetime | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """What else the file says; it goes into ``custom_fields``."""
    problems: Sequence[str] = ()
    """What could not be read. The document continues, marked as partial."""
    attachments: Sequence[Attachment] = ()
    """Files that become documents of their own."""


Reader = Callable[[Content, "Options"], Extract]


def read_document(document: PipeDoc, read: Reader, options: Options) -> Answer:
    """Read the files of a document into it, and return it with the documents of its attachments.

    :raises ModuleFailed: a file cannot be read, or has no text.
    """
    extracts = [read(content, options) for content in contents_of(document, options)]
    problems = [problem for extract in extracts for problem in extract.problems]
    text = "\n\n".join(filter(None, (clean(extract.text) for extract in extracts)))
    if not text and options["on_empty"] == "fail":
        raise ModuleFailed("the document has no text")
    limit = options["max_characters"]
    if len(text) > limit:
        problems.append(beyond_limit(f"the text has {len(text)} characters, and max_characters is {limit}", options))
        text = text[:limit]
    document.search_metadata.body = text
    for extract in reversed(extracts):  # so that the first file's title and author win
        _fill(document, extract)
    attached = [file for extract in extracts for file in extract.attachments]
    documents = [document, *(_child(document, number, file) for number, file in enumerate(attached, start=1))]
    return Answer(documents, HopStatus.PARTIAL if problems else HopStatus.SUCCESS, problems)


def beyond_limit(reason: str, options: Options) -> str:
    """Return the problem of a file that is only read in part.

    :raises ModuleFailed: the node says that such a document fails.
    """
    if options["on_limit"] == "fail":
        raise ModuleFailed(reason)
    return f"{reason}; the rest was left out"


def clean(text: str) -> str:
    """Return text without control characters, half characters, runs of blanks and more than one empty line."""
    text = text.replace("\r\n", "\n").translate(_CONTROLS).encode("utf-8", "replace").decode()
    lines: list[str] = []
    for line in text.split("\n"):
        squeezed = " ".join(line.split())
        if squeezed or (lines and lines[-1]):
            lines.append(squeezed)
    return "\n".join(lines).strip()


def _fill(document: PipeDoc, extract: Extract) -> None:
    found = document.search_metadata
    for name, value in (("title", extract.title), ("author", extract.author), ("language", extract.language)):
        if text := " ".join(clean(value).split()):
            setattr(found, name, text[:_MAX_TITLE])
    words = dict.fromkeys(filter(None, (" ".join(clean(word).split()) for word in extract.keywords)))
    if words:
        found.keywords.keyword[:] = list(words)[:_MAX_KEYWORDS]
    for moment, target in ((extract.created, found.creation_date), (extract.modified, found.last_modified_date)):
        if moment is not None:
            _set_time(target, moment)
    if extract.fields:
        json_format.ParseDict(_printable(extract.fields), found.custom_fields)


def _set_time(target: Timestamp, moment: datetime) -> None:
    target.FromDatetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return value


def _child(parent: PipeDoc, number: int, file: Attachment) -> PipeDoc:
    """Return the document of an attachment; its id is derived, so that a repeat gives the same one."""
    child = PipeDoc(doc_id=f"{parent.doc_id}-attachment-{number}")
    if parent.HasField("ownership"):
        child.ownership.CopyFrom(parent.ownership)
    found = child.search_metadata
    found.title = clean(file.filename) or f"attachment {number}"
    found.mime_type = file.media_type
    found.source_uri = parent.search_metadata.source_uri
    found.source_path = parent.search_metadata.source_path
    found.metadata["parent_doc_id"] = parent.doc_id
    blob = child.blob_bag.blob
    blob.data = file.data
    blob.mime_type = file.media_type
    blob.filename = clean(file.filename)
    blob.size_bytes = len(file.data)
    blob.checksum = hashlib.sha256(file.data).hexdigest()
    blob.checksum_type = core_types.CHECKSUM_TYPE_SHA256
    return child
