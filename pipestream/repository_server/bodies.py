"""Read the bodies of uploads: into memory while they are small, into a file beyond that, and never above the limit."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, TYPE_CHECKING

from pipestream.repository_server.answers import HttpRefusal

if TYPE_CHECKING:
    from starlette.requests import Request

_SPOOL_BYTES = 1024 * 1024
_READ_BYTES = 1024 * 1024
# A sender that sends nothing for so long is given up.
_SILENCE_S = 60.0
_SHA256 = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_CONTENT_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """One file as it arrived. Close it."""

    content: IO[bytes]
    size_bytes: int
    checksum: str
    filename: str
    content_type: str
    """Without parameters, lower case; empty if the sender named none."""

    def read(self) -> bytes:
        self.content.seek(0)
        return self.content.read()


def check_length(headers: Mapping[str, str], limit: int) -> None:
    """Refuse a body by its announced length, before any of it is read.

    :raises HttpRefusal: it is too large.
    """
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)


def too_large(limit: int) -> HttpRefusal:
    # The rest of the body is not read, so the connection cannot be used again.
    return HttpRefusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"the body is larger than {limit} bytes; split it, or raise repository_max_upload_bytes",
        {"Connection": "close"},
    )


async def limited(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield a body piece by piece.

    :raises HttpRefusal: it is too large, or its sender fell silent.
    """
    check_length(request.headers, limit)
    pieces = request.stream().__aiter__()
    total = 0
    while True:
        try:
            piece = await asyncio.wait_for(anext(pieces), _SILENCE_S)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise HttpRefusal(
                HTTPStatus.REQUEST_TIMEOUT,
                "too_slow",
                f"nothing was sent for {_SILENCE_S:g} s",
                {"Connection": "close"},
            ) from None
        total += len(piece)
        if total > limit:
            raise too_large(limit)
        yield piece


async def spool(request: Request, limit: int) -> ReceivedFile:
    """Read a raw body.

    :raises HttpRefusal: it is too large.
    """
    content = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - the caller closes it
    digest = hashlib.sha256()
    size_bytes = 0
    try:
        async for piece in limited(request, limit):
            content.write(piece)
            digest.update(piece)
            size_bytes += len(piece)
    except BaseException:
        content.close()
        raise
    kind = media_kind(request.headers.get("content-type", ""))
    name = filename_of(request.headers)
    return ReceivedFile(content, size_bytes, digest.hexdigest(), name, kind)


def measure(content: IO[bytes]) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file."""
    digest = hashlib.sha256()
    size_bytes = 0
    for piece in _pieces(content):
        digest.update(piece)
        size_bytes += len(piece)
    return size_bytes, digest.hexdigest()


def sign(content: IO[bytes], secret: str) -> str:
    """Return the HMAC-SHA256 of a file, in hex."""
    digest = hmac.new(secret.encode(), digestmod=hashlib.sha256)
    for piece in _pieces(content):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    content.seek(0)
    while piece := content.read(_READ_BYTES):
        yield piece


def media_kind(content_type: str) -> str:
    """Return a content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def filename_of(headers: Mapping[str, str]) -> str:
    """Return the name that the sender gives a raw body."""
    return headers.get("x-filename", "").strip()


def check_checksum(headers: Mapping[str, str], checksum: str) -> None:
    """Compare a body with the checksum that its sender gives, if any: ``X-Checksum-SHA256`` or ``Content-Digest``.

    :raises HttpRefusal: they differ, or the checksum is not one.
    """
    given = headers.get("x-checksum-sha256", "").strip()
    if given and not _SHA256.fullmatch(given):
        raise _bad_checksum("X-Checksum-SHA256 is not 64 hexadecimal digits")
    digest_field = headers.get("content-digest", "")
    if digest_field:
        given_there = _read_content_digest(digest_field)
        if given and given.lower() != given_there:
            raise _bad_checksum("X-Checksum-SHA256 and Content-Digest differ")
        given = given_there
    if given and not hmac.compare_digest(given.lower(), checksum):
        raise HttpRefusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "checksum_mismatch",
            f"the body has the SHA-256 {checksum}, and the sender says {given.lower()}; send it again",
        )


def _read_content_digest(value: str) -> str:
    found = _CONTENT_DIGEST.search(value)
    try:
        digest = base64.b64decode(found.group(1), validate=True) if found else b""
    except binascii.Error:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise _bad_checksum("Content-Digest has no sha-256=:BASE64:")
    return digest.hex()


def _bad_checksum(reason: str) -> HttpRefusal:
    return HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "checksum_invalid", reason)
