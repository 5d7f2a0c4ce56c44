"""A page that was fetched as a document, and the state by which the next run asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from pipestream.connectors.connector import Found, LeftOut, Seen, Unreadable
from pipestream.connectors.files import file_document
from pipestream.connectors.web import Failed, Page, Refused, Web
from pipestream.wire import PipeDoc


def fetch_page(
    web: Web, url: str, state: Mapping[str, Any] | None, extra: Mapping[str, Any] | None = None
) -> Iterator[Found]:
    """Yield a page as a document and its state, or why there is none.

    :param extra: what else the state keeps.
    """
    try:
        page = web.get(url, state)
    except Refused as error:
        yield LeftOut(url, str(error))
        return
    except Failed as error:
        yield Unreadable(url, str(error))
        return
    if page.status == 304:
        yield LeftOut(url, "unchanged, says the server")
        yield Seen(url, {**(state or {}), **(extra or {})})
        return
    yield page_document(url, page)
    yield Seen(url, {**page.validators, **(extra or {})})


def page_document(url: str, page: Page) -> PipeDoc:
    """Return the document of a page. Its id is that of the address that was listed, wherever redirects led."""
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2]) or urlsplit(url).hostname or "page"
    modified = read_http_date(page.headers.get("last-modified", ""))
    return file_document(page.body, url, url, modified, page.kind, name)


def read_http_date(text: str) -> datetime | None:
    """Return a time of HTTP or of RSS in UTC, or None where it is not one."""
    try:
        return in_utc(parsedate_to_datetime(text)) if text else None
    except (ValueError, OverflowError):
        return None


def in_utc(moment: datetime) -> datetime:
    """Return a time in UTC; one without a time zone is in UTC already.

    :raises OverflowError: in UTC it is before the year 1, or after 9999.
    """
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
