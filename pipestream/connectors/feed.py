"""Documents from the entries of an RSS or Atom feed, or from the pages that they link to."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipestream.connectors.connector import Found, LeftOut, Memory, Seen, Unreadable
from pipestream.connectors.feed_entries import Entry, read_date, read_feed
from pipestream.connectors.files import document_id
from pipestream.connectors.options import read_options
from pipestream.connectors.pages import fetch_page
from pipestream.connectors.safe_xml import XmlRefused
from pipestream.connectors.web import Web, get_source
from pipestream.connectors.web_options import FeedOptions
from pipestream.errors import SourceUnreadable
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.plugins import PluginContext

log = logging.getLogger(__name__)


class FeedConnector:
    """Every entry of the feed, in its order. A feed that the server says is unchanged is not read again."""

    def __init__(self, options: FeedOptions, authorization: str) -> None:
        self._options = options
        self._authorization = authorization
        self.scope = options.scope
        self.max_documents = options.max_documents

    def changes(self, memory: Memory) -> Iterator[Found]:
        url = self._options.url
        with Web(self._options, self._authorization) as web:
            page = get_source(web, url, "feed", memory.recall([url]).get(url))
            if page.status == 304:
                yield LeftOut(url, "the feed is unchanged, says the server")
                return
            try:
                entries = read_feed(page.body, url)
            except XmlRefused as error:
                raise SourceUnreadable(f"feed connector: {url}: {error}") from None
            log.info("feed connector: %s: %d entries", url, len(entries))
            is_complete = True
            for found in self._entries(web, entries, memory):
                is_complete &= not isinstance(found, Unreadable)
                yield found
            if is_complete:
                # Otherwise the next run reads the feed again, and tries what failed.
                yield Seen(url, page.validators)

    def _entries(self, web: Web, entries: list[Entry], memory: Memory) -> Iterator[Found]:
        if not self._options.pages:
            yield from _new_entries(entries, memory)
            return
        known = memory.recall([entry.link for entry in entries])
        for number, entry in enumerate(entries, 1):
            if entry.link:
                yield from fetch_page(web, entry.link, known.get(entry.link))
            else:
                yield Unreadable(entry.entry_id or f"entry {number}", "the entry has no link to a page")


def _new_entries(entries: list[Entry], memory: Memory) -> Iterator[Found]:
    """Yield the entries that are not as they were seen before, each with its state."""
    # Remembered under the document's id, because an entry's own id may be the address of the feed.
    known = memory.recall([document_id(entry.entry_id) for entry in entries if entry.entry_id])
    for number, entry in enumerate(entries, 1):
        if not entry.entry_id:
            yield Unreadable(f"entry {number}", "the entry has neither an id nor a link to name it by")
            continue
        document = entry_document(entry)
        state = {"sha256": hashlib.sha256(document.SerializeToString(deterministic=True)).hexdigest()}
        if known.get(document.doc_id) == state:
            yield LeftOut(entry.entry_id, "unchanged since an earlier run")
        else:
            yield document
            yield Seen(document.doc_id, state)


def open_feed(options: Mapping[str, Any], context: PluginContext) -> FeedConnector:
    """Make the connector of kind ``feed``."""
    read = read_options(FeedOptions, options)
    return FeedConnector(read, context.secret(read.authorization_secret) if read.authorization_secret else "")


def entry_document(entry: Entry) -> PipeDoc:
    """Return the document of an entry: its content as a blob, the rest as metadata."""
    document = PipeDoc(doc_id=document_id(entry.entry_id))
    document.doc_id_derivation.method = wire.DOC_ID_DERIVATION_METHOD_SOURCE_URI
    document.doc_id_derivation.input = document.doc_id_derivation.canonical_input = entry.entry_id
    found = document.search_metadata
    found.title = entry.title
    found.mime_type = entry.kind
    found.source_uri = entry.link or entry.entry_id
    if entry.author:
        found.author = entry.author
    if entry.categories:
        found.keywords.keyword.extend(entry.categories)
    for target, text in (("creation_date", entry.published), ("last_modified_date", entry.updated)):
        when = read_date(text) if text else None
        if when is not None:
            getattr(found, target).FromDatetime(when)
        elif text:
            found.metadata[target] = text  # as the feed writes it, which is not a time
    data = entry.content.encode()
    blob = document.blob_bag.blob
    blob.blob_id, blob.data, blob.mime_type, blob.size_bytes = "0", data, entry.kind, len(data)
    blob.checksum, blob.checksum_type = hashlib.sha256(data).hexdigest(), wire.CHECKSUM_TYPE_SHA256
    found.content_length = len(data)
    return document
