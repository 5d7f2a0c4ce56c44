"""The sample graph's modules, with only the standard library: find the kind of a document, parse it, enrich it.

They read no clock and no random numbers, so that a repeat gives the same bytes.
"""

from __future__ import annotations

import csv
import email
import email.policy
import io
import json
import re
from collections import Counter
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from google.protobuf import json_format

from pipestream.errors import ModuleFailed
from pipestream.modules.html import read_html

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc

_TYPE_BY_MEDIA = {
    "application/json": "JSON",
    "application/xhtml+xml": "HTML",
    "message/rfc822": "EMAIL",
    "text/csv": "CSV",
    "text/html": "HTML",
    "text/markdown": "MARKDOWN",
    "text/plain": "TEXT",
}
_STOP_WORDS = {
    "en": "a an and are as at be but by for from had has have he her his in is it its not of on or she that the "
    "their they this to was we were which who will with you",
    "de": "aber als am an auf aus bei das dass dem den der des die durch ein eine einen einer er es für hat ihr im "
    "in ist ich mit nach nicht noch sich sie sind so über und von war was wie wir wird zu zum zur",
    "fr": "au aux avec ce cette ces dans de des du elle en est et eux il ils je la le les leur lui mais ne nous "
    "on ou par pas pour que qui sa se ses son sur un une vous",
    "es": "al como con de del desde el ella en entre era es esta este fue ha hay la las lo los más no o para pero "
    "por que se ser sin sobre su sus también un una y ya",
}
_STOP_SETS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_MARKDOWN_NOISE = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+|```.*$)|[*_`]+|!?\[([^\]]*)\]\([^)]*\)", re.MULTILINE)
_MAX_KEYWORDS = 8


def triage(document: PipeDoc, context: ModuleContext) -> PipeDoc:  # noqa: ARG001
    """Set ``document_type`` from the media type, else from the content."""
    data = _data(document)
    if not data.strip():
        raise ModuleFailed("the document is empty")
    kind = _TYPE_BY_MEDIA.get(document.blob_bag.blob.mime_type) or _type_by_content(data)
    document.search_metadata.document_type = kind
    return document


def parse_markup(document: PipeDoc, context: ModuleContext) -> PipeDoc:  # noqa: ARG001
    """Take title, text and links from HTML or Markdown."""
    text = _text(document)
    found = document.search_metadata
    if found.document_type == "HTML":
        page = read_html(text)
        title, body, fields = page.title, page.text, {"links": page.links}
        if page.language:
            found.language = page.language
    else:
        headings = _HEADING.findall(text)
        title = headings[0] if headings else ""
        body = _squeeze(_MARKDOWN_NOISE.sub(lambda match: match[1] or "", text))
        fields = {"headings": headings}
    if not body:
        raise ModuleFailed("the markup has no text")
    _fill(document, title, body, fields)
    return document


def parse_data(document: PipeDoc, context: ModuleContext) -> PipeDoc:  # noqa: ARG001
    """Take columns and rows from CSV, or keys from JSON, and a text that can be searched."""
    text = _text(document)
    read = _read_csv if document.search_metadata.document_type == "CSV" else _read_json
    title, body, fields = read(text)
    _fill(document, title, body, fields)
    return document


def parse_text(document: PipeDoc, context: ModuleContext) -> PipeDoc:  # noqa: ARG001
    """Take title and text from an e-mail or from plain text."""
    if document.search_metadata.document_type == "EMAIL":
        _read_email(document)
        return document
    text = _text(document).strip()
    if not text:
        raise ModuleFailed("the document has no text")
    first_line = text.splitlines()[0].strip()
    _fill(document, first_line[:120], _squeeze(text), {"lines": text.count("\n") + 1})
    return document


def enrich(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Add language, word count and keywords to a document that has been parsed."""
    found = document.search_metadata
    if not found.body:
        raise ModuleFailed("the document has no text; parse it first")
    words = [word.lower() for word in _WORD.findall(found.body)]
    if not found.language:
        found.language = guess_language(words)
    limit = int(context.config.get("keywords", _MAX_KEYWORDS))
    found.keywords.keyword[:] = _keywords(words, found.language, limit)
    found.content_length = len(found.body)
    found.metadata["word_count"] = str(len(words))
    return document


def guess_language(words: list[str]) -> str:
    """Return the language whose common words are most frequent, or ``und`` where there are none."""
    scores = {language: sum(word in common for word in words) for language, common in _STOP_SETS.items()}
    best = max(scores, key=lambda language: scores[language])
    return best if scores[best] else "und"


def _keywords(words: list[str], language: str, limit: int) -> list[str]:
    common = _STOP_SETS.get(language, frozenset())
    counts = Counter(word for word in words if len(word) > 3 and word not in common)
    # By name where the count is the same: a repeat must give the same list.
    return [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]]


def _read_csv(text: str) -> tuple[str, str, Mapping[str, Any]]:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ModuleFailed(f"not CSV: {error}") from error
    header, *records = [row for row in rows if row] or [[]]
    if not header:
        raise ModuleFailed("not a table: it has no header")
    for number, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise ModuleFailed(f"not a table: row {number} has {len(record)} cells, the header {len(header)}")
    body = "\n".join(" ".join(row) for row in [header, *records])
    return "", body, {"columns": header, "rows": len(records)}


def _read_json(text: str) -> tuple[str, str, Mapping[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ModuleFailed(f"not JSON: {error}") from error
    except RecursionError as error:
        raise ModuleFailed("not JSON that can be read: nested too deeply") from error
    title = value.get("title") if isinstance(value, dict) else None
    keys = sorted(value) if isinstance(value, dict) else []
    body = "\n".join(_strings(value))
    return title if isinstance(title, str) else "", body or text.strip(), {"keys": keys}


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _strings(item)]


def _read_email(document: PipeDoc) -> None:
    message = email.message_from_bytes(_data(document), policy=email.policy.default)
    missing = [name for name in ("From", "Date", "Subject") if name not in message]
    if missing:
        raise ModuleFailed(f"not an e-mail: it has no {', '.join(missing)}")
    try:
        sent = parsedate_to_datetime(str(message["Date"]))
        part = message.get_body(preferencelist=("plain", "html"))
        content = part.get_content() if part is not None else ""
    except (ValueError, LookupError, UnicodeError) as error:
        raise ModuleFailed(f"not an e-mail that can be read: {error}") from error
    document.search_metadata.author = str(message["From"])
    document.search_metadata.creation_date.FromDatetime(sent)
    _fill(document, str(message["Subject"]), _squeeze(content), {"to": str(message.get("To", ""))})


def _type_by_content(data: bytes) -> str:
    start = data.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "HTML"
    if start.startswith((b"{", b"[")):
        return "JSON"
    return "TEXT"


def _data(document: PipeDoc) -> bytes:
    """Return the document's bytes; those of its text where an earlier parser left nothing else."""
    blob = document.blob_bag.blob
    if not document.HasField("blob_bag") and document.search_metadata.body:
        return document.search_metadata.body.encode()
    if blob.WhichOneof("content") != "data":
        raise ModuleFailed("the document has no inline blob to read")
    return blob.data


def _text(document: PipeDoc) -> str:
    data = _data(document)
    if b"\0" in data:
        raise ModuleFailed(f"not text: a zero byte at position {data.index(0)}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModuleFailed(f"not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}") from error


def _fill(document: PipeDoc, title: str, body: str, fields: Mapping[str, Any]) -> None:
    found = document.search_metadata
    if title:
        found.title = title
    found.body = body
    json_format.ParseDict(dict(fields), found.custom_fields)


def _squeeze(text: str) -> str:
    """Return text with one line per paragraph line and no runs of blanks."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
