"""The options of the connectors over HTTP. Reading them needs no library of the extra ``connectors``."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from pipestream.connectors.options import IncrementalOptions

_MAX_PAGE_BYTES = 16 * 1024 * 1024


class WebOptions(IncrementalOptions):
    """What the connectors over HTTP have in common."""

    limits: ClassVar[frozenset[str]] = frozenset(
        {"max_documents", "max_bytes", "timeout_s", "requests_per_second", "allow_private", "authorization_secret"}
    )

    url: str = Field(min_length=1, description="Where it is: http:// or https://.")
    requests_per_second: float = Field(1.0, gt=0, le=1000, description="Requests that are made at most, to all hosts.")
    max_bytes: int = Field(_MAX_PAGE_BYTES, ge=1, description="Larger answers are reported and not taken.")
    timeout_s: float = Field(30.0, gt=0, le=3600, description="How long one answer may take from beginning to end.")
    robots: bool = Field(True, description="Whether robots.txt is obeyed. Off only for servers of your own.")
    allow_private: bool = Field(
        False, description="Whether addresses that are not of the public internet may be asked, such as 10.0.0.1."
    )
    authorization_secret: str = Field(
        "", description="The name of the secret for the header Authorization, sent to the host of the url only."
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, given: str) -> str:
        check_url(given)
        return given


class FeedOptions(WebOptions):
    """The options of the kind ``feed``."""

    kind: ClassVar[str] = "feed"

    pages: bool = Field(
        False, description="Whether the page that an entry links to is the document, and not what the feed says of it."
    )


class SitemapOptions(WebOptions):
    """The options of the kind ``sitemap``."""

    kind: ClassVar[str] = "sitemap"
    limits: ClassVar[frozenset[str]] = WebOptions.limits | {"max_sitemaps"}

    max_sitemaps: int = Field(100, ge=1, description="Sitemaps of an index that are read at most.")
    other_hosts: bool = Field(False, description="Whether pages of other hosts than the sitemap's are taken, too.")


def check_url(url: str) -> None:
    """Check an address.

    :raises ValueError: it is not one of HTTP, or holds a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url[:200]!r} is not an address of http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("an address must not hold a user or password; put them into authorization_secret")
    _ = parts.port  # raises ValueError where it is none
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"{url[:200]!r} has characters that must be percent-encoded")
