"""The entries of a feed: RSS 0.9 to 2.0, RSS 1.0 (RDF) and Atom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from pipestream.connectors.pages import in_utc, read_http_date
from pipestream.connectors.safe_xml import XmlRefused, read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ATOM = "{http://www.w3.org/2005/Atom}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_DC = "{http://purl.org/dc/elements/1.1/}"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a feed says of one entry."""

    entry_id: str
    link: str
    title: str
    content: str
    kind: str
    """The media type of the content."""
    author: str = ""
    published: str = ""
    updated: str = ""
    categories: tuple[str, ...] = ()


def read_feed(body: bytes, url: str) -> list[Entry]:
    """Return the entries of a feed, in its order.

    :param url: where it is, for links that are relative to it.
    :raises XmlRefused: it is not a feed.
    """
    root = read_xml([body])
    if root.tag == f"{_ATOM}feed":
        return [_atom_entry(each, url) for each in root.iter(f"{_ATOM}entry")]
    if _local(root.tag) in ("rss", "RDF"):
        return [_rss_entry(each, url) for each in root.iter() if _local(each.tag) == "item"]
    raise XmlRefused(f"not a feed: its root is {_local(root.tag)}, neither rss nor RDF nor Atom's feed")


def read_date(text: str) -> datetime | None:
    """Return a time as feeds write it, or None where it is not one."""
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        return read_http_date(text)
    except OverflowError:
        return None


def _rss_entry(item: Element, url: str) -> Entry:
    texts: dict[str, str] = {}
    for element in item:
        if element.tag in (_CONTENT, f"{_DC}date", f"{_DC}creator"):
            texts.setdefault(element.tag, _text(element))
        else:
            texts.setdefault(_local(element.tag), _text(element))
    guid = next((each for each in item if _local(each.tag) == "guid"), None)
    link = texts.get("link", "")
    if not link and guid is not None and guid.get("isPermaLink", "true") == "true":
        link = _text(guid)
    return Entry(
        entry_id=texts.get("guid", "") or link,
        link=_absolute(url, link),
        title=texts.get("title", ""),
        content=texts.get(_CONTENT) or texts.get("description", ""),
        kind="text/html",
        author=texts.get("author") or texts.get(f"{_DC}creator", ""),
        published=texts.get("pubDate") or texts.get(f"{_DC}date", ""),
        categories=tuple(text for each in item if _local(each.tag) == "category" and (text := _text(each))),
    )


def _atom_entry(entry: Element, url: str) -> Entry:
    body = entry.find(f"{_ATOM}content")
    if body is None or body.get("src"):
        body = entry.find(f"{_ATOM}summary")
    links = {each.get("rel", "alternate"): each.get("href", "") for each in reversed(entry.findall(f"{_ATOM}link"))}
    link = links.get("alternate", "")
    categories = (each.get("term", "") for each in entry.findall(f"{_ATOM}category"))
    return Entry(
        entry_id=_find(entry, "id") or link,
        link=_absolute(url, link),
        title=_find(entry, "title"),
        content="" if body is None else _text(body),
        kind="text/plain" if body is not None and body.get("type", "text") == "text" else "text/html",
        author=_find(entry, f"author/{_ATOM}name"),
        published=_find(entry, "published"),
        updated=_find(entry, "updated"),
        categories=tuple(each for each in categories if each),
    )


def _find(entry: Element, path: str) -> str:
    found = entry.find(f"{_ATOM}{path}")
    return "" if found is None else _text(found)


def _text(element: Element) -> str:
    """Return the text of an element, with that of elements inside it: XHTML, for one."""
    return "".join(element.itertext()).strip()


def _absolute(url: str, link: str) -> str:
    """Return a link of a feed as an address. One that is none stays as it is: whoever fetches it refuses it."""
    try:
        return urljoin(url, link) if link else ""
    except ValueError:
        return link


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
