"""Bucket administration, which obstore leaves to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipestream.errors import StoreUnavailable
from pipestream.extras import needs_extra
from pipestream.objects.s3 import split_bucket

with needs_extra("s3"):
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from pipestream.settings import Settings

_HERE_ALREADY = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


def ensure_buckets(settings: Settings) -> list[str]:
    """Make the buckets of the object store and of the ledger where they are missing; return those that were made.

    What lies in a folder needs none.

    :raises StoreUnavailable: the server did not answer, or does not let us.
    """
    addresses = [uri for uri in (settings.store_uri, settings.ledger_uri) if uri.startswith("s3://")]
    buckets = dict.fromkeys(split_bucket(uri)[0] for uri in addresses)
    if not buckets:
        return []
    client = _client(settings)
    try:
        return [bucket for bucket in buckets if _make(client, bucket, settings)]
    finally:
        client.close()


def _make(client: Any, bucket: str, settings: Settings) -> bool:
    options: dict[str, Any] = {"Bucket": bucket}
    if settings.s3_endpoint is None and settings.s3_region != "us-east-1":
        # AWS makes buckets in us-east-1 unless told; other servers know no regions.
        options["CreateBucketConfiguration"] = {"LocationConstraint": settings.s3_region}
    try:
        if _exists(client, bucket):
            return False
        client.create_bucket(**options)
    except ClientError as error:
        if error.response["Error"]["Code"] in _HERE_ALREADY and _exists(client, bucket):
            return False  # someone else made it in between
        raise StoreUnavailable(f"bucket {bucket} cannot be made: {error}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"bucket {bucket} cannot be made: {error}") from error
    return True


def _client(settings: Settings) -> Any:
    keys: dict[str, str] = {}
    if settings.s3_access_key and settings.s3_secret_key:
        keys["aws_access_key_id"] = settings.s3_access_key.get_secret_value()
        keys["aws_secret_access_key"] = settings.s3_secret_key.get_secret_value()
    config = Config(
        connect_timeout=3,
        read_timeout=20,
        retries={"total_max_attempts": 4, "mode": "standard"},
        s3={"addressing_style": "path"},
    )
    return boto3.client("s3", endpoint_url=settings.s3_endpoint, region_name=settings.s3_region, config=config, **keys)


def _exists(client: Any, bucket: str) -> bool:
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True
