"""The S3 server: versitygw over a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from pipestream.local.gotools import VERSITYGW, find_tool
from pipestream.local.server import Launch, Server

if TYPE_CHECKING:
    from pathlib import Path

    from pipestream.local.tools import Report

BUCKET = "pipestream"
REGION = "us-east-1"


class S3(Server):
    name = "s3"
    port_names = ("s3",)
    stop_timeout_s = 10.0

    def fetch(self, report: Report) -> None:
        find_tool(VERSITYGW, report)

    @property
    def _objects(self) -> Path:
        return self.site.folder / "objects" / "s3"

    def initialise(self) -> None:
        self._objects.mkdir(parents=True, exist_ok=True)

    def launch(self) -> Launch:
        argv = [
            str(find_tool(VERSITYGW, lambda _: None)),
            "--port",
            self.address,
            "--quiet",
            "--keep-alive",
            "posix",
        ]
        if not _keeps_attributes(self._objects):
            sidecar = self.site.data("s3-metadata")
            sidecar.mkdir(parents=True, exist_ok=True)
            argv += ["--sidecar", str(sidecar)]
        secrets = self.site.secrets
        keys = {"ROOT_ACCESS_KEY": secrets.s3_access_key, "ROOT_SECRET_KEY": secrets.s3_secret_key}
        return Launch((*argv, str(self._objects)), {**keys, "VGW_REGION": REGION})

    def client(self) -> Any:
        """Return a boto3 client for administration."""
        return boto3.client(
            "s3",
            endpoint_url=f"http://{self.address}",
            region_name=REGION,
            aws_access_key_id=self.site.secrets.s3_access_key,
            aws_secret_access_key=self.site.secrets.s3_secret_key,
            config=Config(connect_timeout=2, read_timeout=5, retries={"max_attempts": 1}),
        )

    def check(self) -> None:
        client = self.client()
        try:
            client.list_buckets()
        finally:
            client.close()

    def furnish(self) -> None:
        client = self.client()
        try:
            client.create_bucket(Bucket=BUCKET)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise
        finally:
            client.close()


def _keeps_attributes(folder: Path) -> bool:
    """Whether the file system has the extended attributes in which versitygw keeps metadata."""
    if not hasattr(os, "setxattr"):
        return False
    probe = folder / ".attributes"
    probe.touch()
    try:
        os.setxattr(probe, "user.pipestream", b"1")
    except OSError:
        return False
    finally:
        probe.unlink()
    return True
