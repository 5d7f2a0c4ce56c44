"""A stored document for a page: as JSON of a bounded size, without blobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from pipestream.dead_letters.letter import stream_of
from pipestream.documents.blobs import blobs_of
from pipestream.documents.fetch import fetch_document
from pipestream.documents.references import DocumentPlace, parse_place, place_of
from pipestream.errors import DocumentMissing, PipestreamError, RequestInvalid, TransientError
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Collection

    from pipestream.dead_letters import DeadLetter
    from pipestream.settings import Settings

MOST_BYTES = 8 * 1024 * 1024
"""Larger documents are not shown: nobody reads them in a page."""
_MOST_TEXT = 20_000
_MOST_ITEMS = 200
_MOST_VALUES = 20_000


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it is stored. Its texts are as they are: whoever shows them escapes them."""

    key: str
    """Empty where it travels in its record; of a document in a segment, ``KEY@OFFSET:LENGTH``."""
    size_bytes: int
    truncated: bool
    """Whether texts were cut, items left out, or blobs removed."""
    document: dict[str, Any] | None
    """Protobuf's JSON; None for a document that is too large to show."""


def read_stored(settings: Settings, key: str, doc_id: str, accounts: Collection[str]) -> PipeDoc:
    """Return a stored document.

    :param key: as a receipt gives it; ``KEY@OFFSET:LENGTH`` in a segment.
    :param accounts: those whose documents may be read.
    :raises RequestInvalid: the key is not of a document of these accounts.
    :raises DocumentMissing: there is no such object, or it is another document's.
    """
    place = parse_place(key)
    if not _is_of(place, accounts):
        raise RequestInvalid(f"{key!r} is not the key of a document of {', '.join(sorted(accounts))}")
    document = parse_document(_get(settings, place), key)
    if document.doc_id != doc_id:
        raise DocumentMissing(f"the object {key} is not of document {doc_id}")
    return document


def show_document(document: PipeDoc, key: str) -> StoredDocument:
    """Return a document as JSON of a bounded size. Blobs are left out, long texts and lists are cut."""
    size = document.ByteSize()
    if size > MOST_BYTES:
        return StoredDocument(key, size, truncated=True, document=None)
    has_blobs = any(blob.data for blob in blobs_of(document))
    shown = PipeDoc()
    shown.CopyFrom(document)
    for blob in blobs_of(shown):
        blob.ClearField("data")
    cutter = _Cutter()
    values = cutter.cut(MessageToDict(shown, preserving_proto_field_name=True))
    return StoredDocument(key, size, truncated=cutter.has_cut or has_blobs, document=values)


def letter_document(
    letter: DeadLetter, settings: Settings, accounts: Collection[str]
) -> tuple[StoredDocument | None, str]:
    """Return the document of a dead letter, or why there is none.

    A record that was refused because it names another account's document is a dead letter, too. So what it names is
    checked here again.

    :param accounts: those whose stored documents may be read.
    :raises TransientError: the object store did not answer.
    """
    stream = stream_of(letter.record)
    if stream is None:
        return None, "the record is not a stream, so it has no document"
    if stream.HasField("document"):
        return show_document(stream.document, ""), ""
    try:
        place = place_of(stream)
        if not _is_of(place, accounts):
            return None, f"the record names {place}, which is not a document of this graph's accounts"
        return show_document(parse_document(_get(settings, place), str(place)), str(place)), ""
    except TransientError:
        raise
    except PipestreamError as error:
        return None, str(error)


def _is_of(place: DocumentPlace, accounts: Collection[str]) -> bool:
    """Tell whether a place is one where documents of these accounts are stored."""
    parts = place.key.split("/")
    is_known = parts[0] == "segments" if place.is_in_segment else parts[0] in ("streams", "documents")
    return len(parts) >= 4 and is_known and parts[1] in accounts


def _get(settings: Settings, place: DocumentPlace) -> bytes:
    with open_store(settings.store_uri, settings) as store:
        return fetch_document(store, place)


def parse_document(data: bytes, key: str) -> PipeDoc:
    """Return the document that stored bytes are.

    :param key: where they are stored, for the error.
    :raises DocumentMissing: they are not a document.
    """
    try:
        return PipeDoc.FromString(data)
    except DecodeError:
        raise DocumentMissing(f"the object {key} is not a document") from None


class _Cutter:
    """Cuts plain values to what a page can show."""

    def __init__(self) -> None:
        self.has_cut = False
        self._left = _MOST_VALUES

    def cut(self, value: Any) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.cut(item) for item in self._some(value)]
        if isinstance(value, dict):
            return {self._text(key): self.cut(item) for key, item in self._some(list(value.items()))}
        return value

    def _text(self, text: str) -> str:
        if len(text) <= _MOST_TEXT:
            return text
        self.has_cut = True
        return text[:_MOST_TEXT] + "…"

    def _some(self, items: list[Any]) -> list[Any]:
        most = max(0, min(_MOST_ITEMS, self._left))
        self.has_cut = self.has_cut or len(items) > most
        return items[:most]
