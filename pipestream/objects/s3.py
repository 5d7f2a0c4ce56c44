"""How an S3 server is reached, and what its addresses mean."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pipestream.errors import SettingsInvalid

if TYPE_CHECKING:
    from pipestream.settings import Settings

_CONNECT_TIMEOUT_S = 3.0
_MAX_RETRIES = 4


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
            "connect_timeout": timedelta(seconds=min(settings.s3_timeout_s, _CONNECT_TIMEOUT_S)),
        },
        "retry_config": {
            "max_retries": _MAX_RETRIES,
            # No retry starts later, so that a call ends within twice the timeout, whatever the server does.
            "retry_timeout": timeout,
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }
    if settings.s3_endpoint:
        options["endpoint"] = settings.s3_endpoint
        # Plain HTTP only where the user wrote it: keys and documents would travel in the clear.
        options["client_options"]["allow_http"] = settings.s3_endpoint.startswith("http://")
    if settings.s3_access_key and settings.s3_secret_key:
        options["access_key_id"] = settings.s3_access_key.get_secret_value()
        options["secret_access_key"] = settings.s3_secret_key.get_secret_value()
    return options
