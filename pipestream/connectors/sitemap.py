"""Documents from the pages that a sitemap lists, over sitemap indexes and compressed sitemaps."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipestream.connectors.connector import Found, LeftOut, Memory, Unreadable
from pipestream.connectors.options import read_options
from pipestream.connectors.pages import fetch_page
from pipestream.connectors.safe_xml import XmlRefused, read_xml
from pipestream.connectors.web import Failed, Page, Refused, Web, get_source, origin
from pipestream.connectors.web_options import SitemapOptions, check_url
from pipestream.errors import SourceUnreadable

if TYPE_CHECKING:
    from pipestream.plugins import PluginContext

log = logging.getLogger(__name__)

_MAX_DEPTH = 3
_GZIP = b"\x1f\x8b"
# The protocol allows 50,000 addresses and 50 MB in one sitemap.
_MAX_SITEMAP_BYTES = 50 * 1024 * 1024
_STATES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a sitemap says of a page, or an index of a sitemap."""

    url: str
    lastmod: str
    is_sitemap: bool


class SitemapConnector:
    """Every page of the sitemap, in its order; those whose lastmod is new, or that the server says have changed."""

    def __init__(self, options: SitemapOptions, authorization: str) -> None:
        self._options = options
        self._authorization = authorization
        self.scope = options.scope
        self.max_documents = options.max_documents

    def changes(self, memory: Memory) -> Iterator[Found]:
        with Web(self._options, self._authorization) as web:
            first = get_source(web, self._options.url, "sitemap")
            try:
                entries = _read_sitemap(first)
            except XmlRefused as error:
                raise SourceUnreadable(f"sitemap connector: {self._options.url}: {error}") from None
            yield from _Walk(web, self._options, memory).follow(entries, depth=1)


@dataclass(slots=True)
class _Walk:
    """One run over a sitemap and those that it lists; each address once."""

    web: Web
    options: SitemapOptions
    memory: Memory
    sitemaps: int = 1
    met: set[str] = field(default_factory=set)

    def follow(self, entries: list[_Entry], depth: int) -> Iterator[Found]:
        for start in range(0, len(entries), _STATES_AT_ONCE):
            group = entries[start : start + _STATES_AT_ONCE]
            known = self.memory.recall([entry.url for entry in group if not entry.is_sitemap])
            for entry in group:
                if entry.url in self.met or entry.url == self.options.url:
                    yield LeftOut(entry.url, "listed more than once")
                    continue
                self.met.add(entry.url)
                if entry.is_sitemap:
                    yield from self._sitemap(entry, depth)
                else:
                    yield from self._page(entry, known.get(entry.url))
        log.info("sitemap connector: %d addresses of %d sitemaps met", len(self.met), self.sitemaps)

    def _sitemap(self, entry: _Entry, depth: int) -> Iterator[Found]:
        if self.sitemaps >= self.options.max_sitemaps:
            yield LeftOut(entry.url, f"more than {self.options.max_sitemaps} sitemaps; raise max_sitemaps")
            return
        if depth >= _MAX_DEPTH:
            yield LeftOut(entry.url, f"a sitemap more than {_MAX_DEPTH} levels below the first")
            return
        self.sitemaps += 1
        try:
            inner = _read_sitemap(self.web.get(entry.url))
        except Refused as error:
            yield LeftOut(entry.url, str(error))
        except (Failed, XmlRefused) as error:
            yield Unreadable(entry.url, str(error))
        else:
            yield from self.follow(inner, depth + 1)

    def _page(self, entry: _Entry, state: Mapping[str, Any] | None) -> Iterator[Found]:
        try:
            check_url(entry.url)
        except ValueError as error:
            yield LeftOut(entry.url, str(error))
            return
        if not self.options.other_hosts and origin(entry.url)[1] != origin(self.options.url)[1]:
            yield LeftOut(entry.url, "a page of another host; set other_hosts: true if it is meant")
        elif state and entry.lastmod and state.get("lastmod") == entry.lastmod:
            yield LeftOut(entry.url, "unchanged, says the sitemap")
        else:
            yield from fetch_page(self.web, entry.url, state, {"lastmod": entry.lastmod})


def open_sitemap(options: Mapping[str, Any], context: PluginContext) -> SitemapConnector:
    """Make the connector of kind ``sitemap``."""
    read = read_options(SitemapOptions, options)
    return SitemapConnector(read, context.secret(read.authorization_secret) if read.authorization_secret else "")


def _read_sitemap(page: Page) -> list[_Entry]:
    """:raises XmlRefused: it is not a sitemap."""
    root = read_xml([_decompressed(page.body)])
    name = _local(root.tag)
    if name not in ("urlset", "sitemapindex"):
        raise XmlRefused(f"not a sitemap: its root is {name}")
    entries = []
    for element in root:
        texts = {_local(inner.tag): (inner.text or "").strip() for inner in element}
        if texts.get("loc"):
            entries.append(_Entry(texts["loc"], texts.get("lastmod", ""), _local(element.tag) == "sitemap"))
    return entries


def _decompressed(body: bytes) -> bytes:
    if not body.startswith(_GZIP):
        return body
    unpack = zlib.decompressobj(wbits=31)
    try:
        data = unpack.decompress(body, _MAX_SITEMAP_BYTES + 1)
    except zlib.error as error:
        raise XmlRefused(f"cannot be decompressed: {error}") from None
    if len(data) > _MAX_SITEMAP_BYTES:
        raise XmlRefused(f"more than {_MAX_SITEMAP_BYTES} bytes when it is decompressed")
    return data


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
