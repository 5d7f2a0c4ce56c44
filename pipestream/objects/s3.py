"""S3: the options of the three libraries that talk to it, and what an answer means for a retry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pipestream.errors import SettingsInvalid

if TYPE_CHECKING:
    from pipestream.settings import Settings

_CONNECT_TIMEOUT_S = 3.0
_MAX_RETRIES = 4
_FIRST_BACKOFF_MS = 100
_LONGEST_BACKOFF_MS = 2_000

# obstore and Delta give the answer as text only; Delta puts line breaks and colours into it.
_STATUS = re.compile(r"non-2xx status code(?:[^0-9a-zA-Z]|\[\d+m)*([1-5]\d\d)\b")
_CODE = re.compile(r"<Code>(\w+)</Code>")

# Too slow, at the same time as another, a condition that did not hold, too many: none says that it is not allowed.
_PASSING_STATUSES = {408, 409, 412, 429}
# An expired token is replaced by its issuer, and the next process reads the new one.
_PASSING_CODES = {"NoSuchKey", "RequestTimeout", "ExpiredToken", "Throttling", "SlowDown"}
_WAYS_OUT = {
    "NoSuchBucket": "the bucket does not exist; make it, or correct the address",
    "SignatureDoesNotMatch": "the signature is wrong; correct s3_secret_key",
    "InvalidAccessKeyId": "the server does not know the key; correct s3_access_key",
    "XAdminUserNotFound": "the server does not know the key; correct s3_access_key",
    "PermanentRedirect": "the bucket is in another region; correct s3_region",
    "AuthorizationHeaderMalformed": "the bucket is in another region; correct s3_region",
}
_NOT_ALLOWED = "access is denied; give the key of s3_access_key the right, or correct it"


@dataclass(frozen=True, slots=True)
class Answer:
    """The status of an answer that is an error, and S3's own code; a HEAD request gets none."""

    status: int
    code: str

    @property
    def is_refusal(self) -> bool:
        """Whether the same request gets the same answer until somebody changes a setting, a right or a bucket."""
        if self.status in _PASSING_STATUSES or self.code in _PASSING_CODES:
            return False
        # A 404 without a code may mean the object as well as the bucket.
        return 400 <= self.status < 500 and (self.status, self.code) != (404, "")

    @property
    def way_out(self) -> str:
        """What an operator can do about a refusal."""
        found = _WAYS_OUT.get(self.code)
        if found is None and self.status in (401, 403):
            found = _NOT_ALLOWED
        return f"{found or 'the request is refused'} ({self.status} {self.code})".replace(" )", ")")


def read_answer(text: str) -> Answer | None:
    """Return the server's answer that an error of obstore or Delta contains; None where the server gave none."""
    status = _STATUS.search(text)
    code = _CODE.search(text)
    return Answer(int(status[1]), code[1] if code else "") if status else None


def split_bucket(uri: str) -> tuple[str, str]:
    """Return the bucket and the prefix of an ``s3://`` address.

    :raises SettingsInvalid: it names no bucket.
    """
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not uri.startswith("s3://") or not bucket:
        raise SettingsInvalid(f"store address {uri!r} names no bucket: expected s3://BUCKET[/PREFIX]")
    return bucket, prefix.strip("/")


def obstore_options(settings: Settings) -> dict[str, Any]:
    """Return what obstore takes to reach the server. It holds secrets: never log it."""
    timeout = timedelta(seconds=settings.s3_timeout_s)
    options: dict[str, Any] = {
        "region": settings.s3_region,
        "virtual_hosted_style_request": False,
        "client_options": {
            "timeout": timeout,
            "connect_timeout": timedelta(seconds=_connect_timeout_s(settings)),
        },
        "retry_config": {
            "max_retries": _MAX_RETRIES,
            # No retry starts later, so that a call ends within twice the timeout, whatever the server does.
            "retry_timeout": timeout,
            "backoff": {
                "init_backoff": timedelta(milliseconds=_FIRST_BACKOFF_MS),
                "max_backoff": timedelta(milliseconds=_LONGEST_BACKOFF_MS),
                "base": 2,
            },
        },
    }
    if settings.s3_endpoint:
        options["endpoint"] = settings.s3_endpoint
        options["client_options"]["allow_http"] = _allows_http(settings)
    if settings.s3_access_key and settings.s3_secret_key:
        options["access_key_id"] = settings.s3_access_key.get_secret_value()
        options["secret_access_key"] = settings.s3_secret_key.get_secret_value()
    return options


def delta_options(settings: Settings) -> dict[str, str]:
    """Return what Delta takes to reach the server, with the same limits. It holds secrets: never log it."""
    options = {
        "aws_region": settings.s3_region,
        "timeout": f"{settings.s3_timeout_s * 1000:.0f}ms",
        "connect_timeout": f"{_connect_timeout_s(settings) * 1000:.0f}ms",
        "max_retries": str(_MAX_RETRIES),
        "retry_timeout": f"{settings.s3_timeout_s * 1000:.0f}ms",
        "backoff_config.init_backoff": f"{_FIRST_BACKOFF_MS}ms",
        "backoff_config.max_backoff": f"{_LONGEST_BACKOFF_MS}ms",
        "backoff_config.base": "2",
    }
    if settings.s3_endpoint:
        options |= {"aws_endpoint": settings.s3_endpoint, "aws_allow_http": str(_allows_http(settings)).lower()}
    if settings.s3_access_key and settings.s3_secret_key:
        options |= {
            "aws_access_key_id": settings.s3_access_key.get_secret_value(),
            "aws_secret_access_key": settings.s3_secret_key.get_secret_value(),
        }
    return options


def boto_options(settings: Settings) -> dict[str, Any]:
    """Return what a client of boto3 takes to reach the server. It holds secrets: never log it."""
    from botocore.config import Config

    config = Config(
        connect_timeout=_connect_timeout_s(settings),
        read_timeout=settings.s3_timeout_s,
        # Two, so that a call ends within about twice the timeout; boto3 has no limit for all tries together.
        retries={"total_max_attempts": 2, "mode": "standard"},
        s3={"addressing_style": "path"},
    )
    options: dict[str, Any] = {
        "endpoint_url": settings.s3_endpoint,
        "region_name": settings.s3_region,
        "config": config,
    }
    if settings.s3_access_key and settings.s3_secret_key:
        options["aws_access_key_id"] = settings.s3_access_key.get_secret_value()
        options["aws_secret_access_key"] = settings.s3_secret_key.get_secret_value()
    return options


def _connect_timeout_s(settings: Settings) -> float:
    return min(settings.s3_timeout_s, _CONNECT_TIMEOUT_S)


def _allows_http(settings: Settings) -> bool:
    """Plain HTTP only where the user wrote it: keys and documents would travel in the clear."""
    return (settings.s3_endpoint or "").startswith("http://")
