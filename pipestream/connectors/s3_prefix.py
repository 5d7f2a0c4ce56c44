"""Documents from the objects below a prefix of an S3 bucket: those whose etag is not the one seen before."""

from __future__ import annotations

import fnmatch
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import obstore
from obstore.exceptions import BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store
from pydantic import Field, model_validator

from pipestream.connectors.connector import Found, LeftOut, Memory, Seen, Unreadable
from pipestream.connectors.files import file_document
from pipestream.connectors.options import MAX_FILE_BYTES, IncrementalOptions, read_options
from pipestream.errors import SourceUnreadable, StoreUnavailable
from pipestream.objects.s3 import obstore_options, read_answer

if TYPE_CHECKING:
    from pipestream.plugins import PluginContext
    from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)

# What is read ahead is held in memory: at most 16 objects, and 64 MB unless one alone is larger.
_AT_ONCE = 16
_AT_ONCE_BYTES = 64 * 1024 * 1024


class S3Options(IncrementalOptions):
    """The options of the kind ``s3``."""

    kind: ClassVar[str] = "s3"
    limits: ClassVar[frozenset[str]] = frozenset({"max_documents", "max_bytes"})

    bucket: str = Field(min_length=1, description="The bucket.")
    prefix: str = Field("", description="Only objects below it: a whole number of key parts, such as reports/2026.")
    pattern: str = Field("*", description="Only objects whose names, after the last /, match, with * and ?.")
    max_bytes: int = Field(MAX_FILE_BYTES, ge=1, description="Larger objects are reported and not taken.")
    endpoint: str = Field("", description="The server, if it is not that of PIPESTREAM_S3_ENDPOINT.")
    region: str = Field("", description="The region, if it is not PIPESTREAM_S3_REGION.")
    access_key_secret: str = Field("", description="The name of the secret that holds the access key.")
    secret_key_secret: str = Field("", description="The name of the secret that holds the secret key.")
    anonymous: bool = Field(False, description="Whether requests are not signed: for public buckets.")

    @model_validator(mode="after")
    def _check_keys(self) -> S3Options:
        if bool(self.access_key_secret) != bool(self.secret_key_secret):
            raise ValueError("access_key_secret and secret_key_secret go together; set both or neither")
        if self.endpoint and not (self.access_key_secret or self.anonymous):
            # The keys of the product's own store must not be shown to another server.
            raise ValueError("an endpoint of its own needs access_key_secret and secret_key_secret, or anonymous: true")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError("endpoint must start with http:// or https://")
        return self


class S3Connector:
    """Every object below a prefix, in the order of the listing."""

    def __init__(self, options: S3Options, store: Any) -> None:
        self._options = options
        self._store = store
        self._uri = f"s3://{options.bucket}/{options.prefix}".rstrip("/")
        self.scope = options.scope
        self.max_documents = options.max_documents

    def changes(self, memory: Memory) -> Iterator[Found]:
        listed = 0
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="s3-connector") as pool:
            for page in self._pages():
                listed += len(page)
                log.info("%s: %d objects listed", self._uri, listed)
                known = memory.recall([entry["path"] for entry in page])
                wanted = []
                for entry in page:
                    problem = self._why_not(entry, known)
                    if problem is None:
                        wanted.append(entry)
                    else:
                        yield problem
                for entry, found in self._read_ahead(pool, wanted):
                    yield found
                    if not isinstance(found, Unreadable):
                        yield Seen(entry["path"], {"etag": _version(entry)})

    def _pages(self) -> Iterator[Sequence[Any]]:
        try:
            yield from obstore.list(self._store, self._options.prefix or None, chunk_size=1_000)
        except (BaseError, OSError) as error:
            raise self._failed("list", "", error) from error

    def _read_ahead(
        self, pool: ThreadPoolExecutor, entries: Sequence[Any]
    ) -> Iterator[tuple[Any, PipeDoc | Unreadable | LeftOut]]:
        """Yield objects in their order, while those behind them are read."""
        under_way: deque[tuple[Any, Future[PipeDoc | Unreadable | LeftOut]]] = deque()
        size_bytes = 0
        for entry in entries:
            while under_way and (len(under_way) == _AT_ONCE or size_bytes + entry["size"] > _AT_ONCE_BYTES):
                first, read = under_way.popleft()
                size_bytes -= first["size"]
                yield first, read.result()
            under_way.append((entry, pool.submit(self._read, entry)))
            size_bytes += entry["size"]
        for entry, read in under_way:
            yield entry, read.result()

    def _why_not(self, entry: Any, known: Mapping[str, Mapping[str, Any]]) -> Unreadable | LeftOut | None:
        path = entry["path"]
        if not fnmatch.fnmatchcase(path.rpartition("/")[2], self._options.pattern):
            return LeftOut(path, "its name does not match the pattern")
        if known.get(path, {}).get("etag") == _version(entry):
            return LeftOut(path, "unchanged since an earlier run")
        if entry["size"] > self._options.max_bytes:
            return Unreadable(
                path,
                f"{entry['size']} bytes, above the limit of {self._options.max_bytes}; raise max_bytes or split it",
            )
        return None

    def _read(self, entry: Any) -> PipeDoc | Unreadable | LeftOut:
        path = entry["path"]
        # Of this etag and no other, or the state would name another content than the one that is taken.
        options: Any = {"if_match": entry["e_tag"]} if entry.get("e_tag") else {}
        try:
            data = bytes(obstore.get(self._store, path, options=options).bytes())
        except PreconditionError:
            return Unreadable(path, "it changed while it was read; the next run takes it")
        except (NotFoundError, FileNotFoundError) as error:
            if entry["size"] == 0:
                return LeftOut(path, "the empty marker of a folder")
            answer = read_answer(str(error))
            if answer is not None and answer.code == "NoSuchKey":
                return Unreadable(path, "it was deleted while the prefix was read")
            raise self._failed("get", path, error) from error
        except (BaseError, OSError) as error:
            raise self._failed("get", path, error) from error
        modified: datetime = entry["last_modified"].replace(microsecond=0)
        return file_document(data, path, f"s3://{self._options.bucket}/{quote(path)}", modified)

    def _failed(self, verb: str, path: str, error: Exception) -> SourceUnreadable | StoreUnavailable:
        answer = read_answer(str(error))
        what = f"s3 connector: could not {verb} {path or self._uri!r}"
        if answer is not None and answer.is_refusal:
            return SourceUnreadable(f"{what}: {answer.way_out}")
        return StoreUnavailable(f"{what}: {str(error).strip().splitlines()[0][:300]}")


def open_s3(options: Mapping[str, Any], context: PluginContext) -> S3Connector:
    """Make the connector of kind ``s3``."""
    read = read_options(S3Options, options)
    reach = obstore_options(context.settings)
    if read.region:
        reach["region"] = read.region
    if read.endpoint:
        reach["endpoint"] = read.endpoint
        reach["client_options"]["allow_http"] = read.endpoint.startswith("http://")
    if read.access_key_secret or read.anonymous:
        for name in ("access_key_id", "secret_access_key"):
            reach.pop(name, None)
    if read.access_key_secret:
        reach["access_key_id"] = context.secret(read.access_key_secret)
        reach["secret_access_key"] = context.secret(read.secret_key_secret)
    if read.anonymous:
        reach["skip_signature"] = True
    return S3Connector(read, S3Store(read.bucket, **reach))


def _version(entry: Any) -> str:
    """Return the etag; where a server has none, size and time stand for it."""
    return str(entry.get("e_tag") or f"{entry['size']}-{entry['last_modified'].isoformat()}")
