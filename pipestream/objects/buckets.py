"""Bucket administration, which obstore leaves to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipestream.errors import StoreRefused, StoreUnavailable
from pipestream.extras import needs_extra
from pipestream.objects.s3 import Answer, boto_options, split_bucket

with needs_extra("s3"):
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from pipestream.settings import Settings


def ensure_buckets(settings: Settings) -> list[str]:
    """Make the buckets of the object store and of the ledger where they are missing; return those that were made.

    What lies in a folder needs none.

    :raises StoreUnavailable: the server did not answer.
    :raises StoreRefused: it does not let us.
    """
    addresses = [uri for uri in (settings.store_uri, settings.ledger_uri) if uri.startswith("s3://")]
    buckets = dict.fromkeys(split_bucket(uri)[0] for uri in addresses)
    if not buckets:
        return []
    client = boto3.client("s3", **boto_options(settings))
    try:
        return [bucket for bucket in buckets if _make(client, bucket, settings)]
    finally:
        client.close()


def _make(client: Any, bucket: str, settings: Settings) -> bool:
    options: dict[str, Any] = {"Bucket": bucket}
    if settings.s3_endpoint is None and settings.s3_region != "us-east-1":
        # AWS makes buckets in us-east-1 by default; other servers have no regions.
        options["CreateBucketConfiguration"] = {"LocationConstraint": settings.s3_region}
    try:
        if _exists(client, bucket):
            return False
        client.create_bucket(**options)
    except ClientError as error:
        answer = Answer(error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"])
        if answer.code == "BucketAlreadyOwnedByYou":
            return False  # another process made it in between
        if answer.code == "BucketAlreadyExists":
            raise StoreRefused(f"bucket {bucket} belongs to somebody else; choose another name") from error
        if answer.is_refusal:
            raise StoreRefused(f"bucket {bucket} cannot be made: {answer.way_out}") from error
        raise StoreUnavailable(f"bucket {bucket} cannot be made: {error}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"bucket {bucket} cannot be made: {error}") from error
    return True


def _exists(client: Any, bucket: str) -> bool:
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True
