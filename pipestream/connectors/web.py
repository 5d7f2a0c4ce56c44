"""Pages over HTTP, as a guest behaves: robots.txt is obeyed, requests have a pace, and everything has a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from pipestream.connectors.addresses import AddressRefused, GuardedBackend
from pipestream.connectors.web_options import WebOptions, check_url
from pipestream.errors import SourceUnavailable
from pipestream.extras import needs_extra
from pipestream.version import VERSION

with needs_extra("connectors"):
    import httpcore

_MAX_ROBOTS_BYTES = 512 * 1024
_MAX_NUMBER_LINE = 200
_MAX_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
# A robots.txt may ask for any pause. A longer one would let a run stand still.
_LONGEST_PAUSE_S = 60.0


class Refused(Exception):
    """A page is not fetched, on purpose: robots.txt forbids it, or its address is not one that we ask."""


class Failed(Exception):
    """A page could not be fetched."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def validators(self) -> dict[str, str]:
        """What the next request says, so that the server need not send the same again."""
        return {"etag": self.headers.get("etag", ""), "modified": self.headers.get("last-modified", "")}


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port


@dataclass(slots=True)
class Pace:
    """Waits so that requests are not more frequent than wanted."""

    per_second: float
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0

    def wait(self, pause_s: float = 0.0) -> None:
        """:param pause_s: at least so long after the request before, if that is longer."""
        now = self.clock()
        if self._next > now:
            self.sleep(self._next - now)
        self._next = max(now, self._next) + max(1.0 / self.per_second, min(pause_s, _LONGEST_PAUSE_S))


@dataclass(slots=True)
class Web:
    """Fetches pages for one connector. A context manager."""

    options: WebOptions
    authorization: str = field(repr=False, default="")
    _robots: dict[tuple[str, str, int | None], RobotFileParser] = field(default_factory=dict)
    _backend: Any = None
    _pool: Any = None
    _pace: Any = None

    def __enter__(self) -> Web:
        self._backend = GuardedBackend(allow_private=self.options.allow_private)
        self._pool = httpcore.ConnectionPool(network_backend=self._backend, max_connections=4)
        self._pace = Pace(self.options.requests_per_second)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def get(self, url: str, known: Mapping[str, Any] | None = None) -> Page:
        """Fetch a page, over redirects; its status is 200, or 304 where it is as it was known.

        :param known: the validators of the last answer.
        :raises Refused: it is not fetched, on purpose.
        :raises Failed: it cannot be fetched; the message says why.
        """
        headers = {}
        if known and known.get("etag"):
            headers["If-None-Match"] = str(known["etag"])
        if known and known.get("modified"):
            headers["If-Modified-Since"] = str(known["modified"])
        page = self._follow(url, headers, self._allowed_pause_s)
        if page.status not in (200, 304):
            raise Failed(f"the server answered {page.status}")
        return page

    def _follow(self, url: str, headers: Mapping[str, str], allowed: Callable[[str], float]) -> Page:
        url = urldefrag(url).url
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                check_url(url)
            except ValueError as error:
                raise Refused(str(error)) from None
            page = self._request(url, headers, allowed(url))
            location = page.headers.get("location")
            if page.status not in _REDIRECTS or not location:
                return page
            try:
                url = urldefrag(urljoin(url, location)).url
            except ValueError as error:
                raise Refused(f"it redirects to {location[:200]!r}: {error}") from None
        raise Failed(f"more than {_MAX_REDIRECTS} redirects")

    def _allowed_pause_s(self, url: str) -> float:
        """Return the pause that the host asks for.

        :raises Refused: its robots.txt forbids the page.
        """
        if not self.options.robots:
            return 0.0
        rules = self._robots.get(origin(url))
        if rules is None:
            rules = self._robots[origin(url)] = self._read_robots(url)
        if not rules.can_fetch(USER_AGENT, url):
            raise Refused("robots.txt forbids it")
        return float(rules.crawl_delay(USER_AGENT) or 0.0)

    def _read_robots(self, url: str) -> RobotFileParser:
        rules = RobotFileParser()
        page = self._follow(urljoin(url, "/robots.txt"), {}, lambda _: 0.0)
        if page.status == 200:
            lines = page.body[:_MAX_ROBOTS_BYTES].decode(errors="replace").splitlines()
            rules.parse([line for line in lines if _is_parsed(line)])
        elif page.status in (401, 403):
            rules.parse(["User-agent: *", "Disallow: /"])
        elif 400 <= page.status < 500:
            rules.parse([])
        else:
            # RFC 9309: where it cannot be read, nothing is allowed.
            raise Failed(f"robots.txt cannot be read: the server answered {page.status}")
        return rules

    def _request(self, url: str, headers: Mapping[str, str], pause_s: float) -> Page:
        self._pace.wait(pause_s)
        # Not compressed: the size limit counts what arrives, and a small answer could become a large one.
        sent = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        sent["Host"] = urlsplit(url).netloc
        if self.authorization and origin(url) == origin(self.options.url):
            sent["Authorization"] = self.authorization
        limit = dict.fromkeys(("connect", "read", "write", "pool"), self.options.timeout_s)
        self._backend.deadline = time.monotonic() + self.options.timeout_s
        try:
            # As they are read: an etag may have any byte.
            coded = {name: value.encode("latin-1") for name, value in sent.items()}
            with self._pool.stream("GET", url, headers=coded, extensions={"timeout": limit}) as answer:
                return self._read(answer)
        except AddressRefused as error:
            raise Refused(str(error)) from None
        except httpcore.TimeoutException:
            raise Failed(f"no answer within {self.options.timeout_s:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as error:
            raise Failed(f"{type(error).__name__}: {error}".removesuffix(": ")) from None

    def _read(self, answer: Any) -> Page:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        if headers.get("content-encoding", "identity") != "identity":
            raise Failed("the server compresses what it was asked to send plain")
        chunks: list[bytes] = []
        size_bytes = 0
        try:
            for chunk in answer.iter_stream():
                size_bytes += len(chunk)
                if size_bytes > self.options.max_bytes:
                    raise Failed(f"more than {self.options.max_bytes} bytes; raise max_bytes")
                chunks.append(chunk)
        except httpcore.ReadTimeout:
            raise Failed(f"the answer is not complete after {self.options.timeout_s:g} s") from None
        return Page(answer.status, headers, b"".join(chunks))


def _is_parsed(line: str) -> bool:
    """Tell whether Python can parse a line of robots.txt. It raises for a number such as ², or of 5,000 digits."""
    is_number = line.partition(":")[0].strip().lower() in ("crawl-delay", "request-rate")
    return not is_number or (line.isascii() and len(line) <= _MAX_NUMBER_LINE)


USER_AGENT = f"pipestream-airflow/{VERSION}"


def get_source(web: Web, url: str, kind: str, known: Mapping[str, Any] | None = None) -> Page:
    """Fetch what a connector begins with.

    :raises SourceUnavailable: it cannot be fetched.
    """
    try:
        return web.get(url, known)
    except (Refused, Failed) as error:
        raise SourceUnavailable(f"{kind} connector: {url}: {error}") from None
