"""Text, title, links and metadata of HTML pages."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed
from pipestream.extras import needs_extra
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.content import Content, decode
from pipestream.modules.documents.extract import Extract, read_document
from pipestream.modules.documents.options import ENCODING, LIMITS, read_options, schema_of

with needs_extra("documents"):
    from selectolax.lexbor import LexborHTMLParser, LexborNode

if TYPE_CHECKING:
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS, ENCODING)

_UNSEEN = "script, style, template, noscript, head, svg, iframe, object"
_BREAKS = (
    "address, article, aside, blockquote, br, caption, dd, div, dl, dt, fieldset, figcaption, figure, footer, form, "
    "h1, h2, h3, h4, h5, h6, header, hr, li, main, nav, ol, option, p, pre, section, table, td, th, tr, ul"
)
# Line breaks of the source do not count: only tags break lines. No page has this character, the record separator.
_BREAK = "\x1e"
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CHARSET_WITHIN = 4_096
_MAX_LINKS = 1_000
# The parser's time grows with the square of the depth: 8,000 take 1.5 s, 100,000 minutes. Browsers stop at 512.
_MAX_DEPTH = 2_000
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]{0,30})")
# Its time grows with the square of a tag's attributes, too: 10,000 take 2 s.
_MAX_ATTRIBUTES = 2_000
_LONG_TAG = re.compile(r"<[A-Za-z][^>]{5000,}")
# Tags that need not be closed, or cannot be: a list of 10,000 open <li> is not 10,000 deep.
_FLAT = frozenset(
    {"area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img", "input", "li"}
    | {"link", "meta", "option", "optgroup", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th", "thead"}
    | {"tr", "track", "wbr"}
)
_CREATED = ("article:published_time", "date", "dc.date", "dcterms.created", "dc.date.created")
_MODIFIED = ("article:modified_time", "last-modified", "dcterms.modified", "og:updated_time")


@declare_module(is_parser=True, config_schema=SCHEMA, name="html", description="Text and metadata of HTML pages.")
def extract(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read the text, title, links, language and metadata of an HTML page."""
    return read_document(document, read_html, read_options(SCHEMA, context.config))


def read_html(content: Content, options: Options) -> Extract:
    """Return what a reader of a page sees, and what its head says. Broken markup is read as a browser reads it.

    :raises ModuleFailed: it is not text of the encoding that it declares.
    """
    if not content.encoding and (declared := _CHARSET.search(content.data[:_CHARSET_WITHIN])):
        content = replace(content, encoding=declared[1].decode())
    return read_page(decode(content, options["encoding"]))


def read_page(source: str) -> Extract:
    """Return what a page contains that is text already.

    :raises ModuleFailed: it is nested deeper, or has longer tags, than any page for people.
    """
    if _depth(source) > _MAX_DEPTH:
        raise ModuleFailed(f"the page is nested more than {_MAX_DEPTH} tags deep")
    if any(len(tag.split(None, _MAX_ATTRIBUTES + 1)) > _MAX_ATTRIBUTES for tag in _LONG_TAG.findall(source)):
        raise ModuleFailed(f"a tag of the page has more than {_MAX_ATTRIBUTES} attributes")
    page = LexborHTMLParser(source.replace(_BREAK, " "))
    named = _metadata(page)
    titles = [node.text() for node in (page.css_first("title"), page.css_first("h1")) if node is not None]
    root = page.root
    language = (root.attributes.get("lang") or "") if root is not None else ""
    links = dict.fromkeys(link for node in page.css("a[href]") if (link := (node.attributes["href"] or "").strip()))
    fields = {"links": list(links)[:_MAX_LINKS], "description": named.get("description", "")}
    return Extract(
        text=_take_text(page),
        title=next(filter(str.strip, [*titles, named.get("og:title", "")]), ""),
        author=named.get("author", "") or named.get("dc.creator", ""),
        language=language.partition("-")[0].strip().lower(),
        keywords=named.get("keywords", "").split(","),
        created=_first_time(named, _CREATED),
        modified=_first_time(named, _MODIFIED),
        fields={name: value for name, value in fields.items() if value},
    )


def _depth(source: str) -> int:
    depth = deepest = 0
    for closing, name in _TAG.findall(source):
        if name.lower() not in _FLAT:
            depth = max(0, depth - 1) if closing else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _metadata(page: LexborHTMLParser) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in page.css("meta[content]"):
        name = node.attributes.get("name") or node.attributes.get("property") or ""
        found.setdefault(name.strip().lower(), node.attributes["content"] or "")
    return found


def _take_text(page: LexborHTMLParser) -> str:
    """Return the text, and leave a page without it: a node that was found before must not be used again."""
    for node in page.css(_UNSEEN):
        node.decompose()
    body: LexborNode | None = page.body or page.root
    if body is None:
        return ""
    for node in body.css(_BREAKS):
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    lines = (" ".join(line.split()) for line in body.text(deep=True).split(_BREAK))
    return "\n".join(line for line in lines if line)


def _first_time(named: dict[str, str], names: tuple[str, ...]) -> datetime | None:
    for name in names:
        try:
            return datetime.fromisoformat(named[name].strip())
        except (KeyError, ValueError):
            continue
    return None
