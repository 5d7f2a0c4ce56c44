"""Plain text, Markdown and JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleFailed
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.content import decode
from pipestream.modules.documents.extract import Extract, read_document
from pipestream.modules.documents.options import ENCODING, LIMITS, read_options, schema_of

if TYPE_CHECKING:
    from pipestream.modules.documents.content import Content
    from pipestream.modules.documents.options import Options
    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of(LIMITS, ENCODING)

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_MARKDOWN_NOISE = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+|```.*$)|[*_`]+|!?\[([^\]]*)\]\([^)]*\)", re.MULTILINE)
_MAX_TITLE = 120
_MAX_HEADINGS = 1_000


@declare_module(is_parser=True, config_schema=SCHEMA, name="text", description="Plain text.")
def extract(document: PipeDoc, context: ModuleContext) -> Answer:
    """Read plain text; its first line is the title."""
    return read_document(document, read_text, read_options(SCHEMA, context.config))


def read_text(content: Content, options: Options) -> Extract:
    """Return plain text.

    :raises ModuleFailed: it is not text of its encoding.
    """
    text = decode(content, options["encoding"]).strip()
    first_line = text.partition("\n")[0].strip()
    return Extract(text=text, title=first_line[:_MAX_TITLE], fields={"lines": text.count("\n") + 1})


def read_markdown(content: Content, options: Options) -> Extract:
    """Return the text of Markdown without its marks; the first heading is the title.

    :raises ModuleFailed: it is not text of its encoding.
    """
    text = decode(content, options["encoding"])
    headings = _HEADING.findall(text)[:_MAX_HEADINGS]
    body = _MARKDOWN_NOISE.sub(lambda match: match[1] or "", text)
    return Extract(text=body, title=headings[0] if headings else "", fields={"headings": headings})


def read_json(content: Content, options: Options) -> Extract:
    """Return all strings of a JSON value, and the keys of an object; its ``title`` is the title.

    :raises ModuleFailed: it is not JSON, or is nested too deeply.
    """
    text = decode(content, options["encoding"])
    try:
        value = json.loads(text)
        body = "\n".join(_strings(value))
    except ValueError as error:
        raise ModuleFailed(f"not JSON: {error}") from error
    except RecursionError as error:
        raise ModuleFailed("not JSON that can be read: nested too deeply") from error
    title = value.get("title") if isinstance(value, dict) else None
    author = value.get("author") if isinstance(value, dict) else None
    return Extract(
        text=body or text.strip(),
        title=title if isinstance(title, str) else "",
        author=author if isinstance(author, str) else "",
        fields={"keys": sorted(value)} if isinstance(value, dict) else {},
    )


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _strings(item)]
