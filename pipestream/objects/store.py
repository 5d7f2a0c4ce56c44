"""The object store: a folder or an S3 bucket, through obstore, and a folder's files by themselves where that is faster.

A store's connections belong to the process that opened it: open one per process, never send it to another.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PermissionDeniedError
from obstore.store import LocalStore, S3Store

from pipestream.errors import DocumentMissing, SettingsInvalid, StoreRefused, StoreUnavailable
from pipestream.ids import check_key
from pipestream.objects.files import Files
from pipestream.objects.s3 import obstore_options, read_answer, split_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from pipestream.objects.ranges import ByteRange
    from pipestream.settings import Settings

# Objects of 10 KB on a local S3 server and 2 cores: 16 threads 1.8 k puts/s and 3.0 k gets/s,
# obstore's async interface 1.7 k and 1.8 k. More threads gained nothing on reads.
_CONCURRENCY = 16

# The first meets another writer, the second a server that has settled it.
_TRIES_OF_A_NAME = 3

_NOT_FOUND = (NotFoundError, FileNotFoundError)
_NOT_IN_FOLDER = (*_NOT_FOUND, IsADirectoryError, NotADirectoryError)
_NOT_ALLOWED = (PermissionDeniedError, PermissionError)
_RANGE_NOT_SATISFIABLE = 416
_XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>'

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def open_store(uri: str, settings: Settings) -> ObjectStore:
    """Open the store that ``uri`` names, ``file://FOLDER`` or ``s3://BUCKET[/PREFIX]``.

    A folder is made if it is not there, and a relative one is taken from the current folder. A bucket must
    exist (``pipestream.objects.buckets.ensure_buckets``).

    :raises SettingsInvalid: the address cannot be used.
    :raises StoreUnavailable: the folder cannot be made.
    """
    scheme, _, rest = uri.partition("://")
    if scheme == "file" and rest:
        return _open_folder(Path(unquote(rest)).resolve(), uri)
    if scheme == "s3":
        bucket, prefix = split_bucket(uri)
        return ObjectStore(S3Store(bucket, prefix=prefix or None, **obstore_options(settings)), uri)
    raise SettingsInvalid(f"store address {uri!r}: expected file://FOLDER or s3://BUCKET[/PREFIX]")


def _open_folder(folder: Path, uri: str) -> ObjectStore:
    try:
        return ObjectStore(LocalStore(folder, mkdir=True), uri, folder)
    except (BaseError, OSError) as error:
        raise StoreUnavailable(f"{uri}: the folder cannot be used: {error}") from error


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a store says of an object without reading it."""

    key: str
    size_bytes: int
    modified_at: datetime


class _Bucket:
    """The objects of a bucket, by key."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def read(self, key: str) -> bytes:
        return bytes(obstore.get(self._backend, key).bytes())

    def write(self, key: str, data: bytes) -> None:
        # One request for any size: a multipart upload that dies leaves parts behind that cost money.
        obstore.put(self._backend, key, data, use_multipart=False)

    def write_new(self, key: str, data: bytes) -> bool:
        try:
            obstore.put(self._backend, key, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True


class ObjectStore:
    """Objects by key. Safe to use from several threads.

    A put is atomic: a reader sees the whole object or none, also after a crash of the process. In a folder
    it is as durable as the machine's page cache, as Kafka's own log is; use S3 where power may fail.
    """

    def __init__(self, backend: Any, uri: str, folder: Path | None = None) -> None:
        self.uri = uri
        self._backend = backend
        self._folder = folder
        self._objects = _Bucket(backend) if folder is None else Files(folder)
        self._pool = ThreadPoolExecutor(_CONCURRENCY, thread_name_prefix="object-store")

    def __enter__(self) -> ObjectStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for requests under way and end the store's threads."""
        self._pool.shutdown(cancel_futures=True)

    def put(self, key: str, data: bytes) -> None:
        """Store an object, over one that may be there.

        :raises StoreUnavailable: the store did not answer.
        :raises StoreRefused: it will not do this, for us or at all. Every call below may raise it too.
        """
        check_key(key)
        try:
            self._objects.write(key, data)
        except (BaseError, OSError) as error:
            raise self._failed("put", key, error) from error

    def put_new(self, key: str, data: bytes) -> bool:
        """Store an object unless there is one of that name, and say whether it was stored.

        False also where the store took this very object and its answer was lost: compare what is there.

        :raises StoreUnavailable: as ``put``.
        """
        check_key(key)
        try:
            return self._objects.write_new(key, data)
        except (BaseError, OSError) as error:
            raise self._failed("put", key, error) from error

    def get(self, key: str) -> bytes:
        """Return an object's bytes.

        :raises DocumentMissing: there is no such object.
        :raises StoreUnavailable: the store did not answer.
        """
        check_key(key)
        try:
            return self._objects.read(key)
        except (BaseError, OSError) as error:
            raise self._not_got("get", key, error) from error

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Store several objects at once. After an error some are stored and some are not; repeat them all.

        :raises StoreUnavailable: as ``put``.
        """
        self._spread(lambda item: self.put(*item), items)

    def put_once(self, items: Sequence[tuple[str, bytes]]) -> list[str]:
        """Store several objects, each under a name that keeps its first bytes; return the keys that hold others.

        After an error, repeat them all: an object that is there with the same bytes counts as stored.

        :raises StoreUnavailable: as ``put``.
        """
        is_stored = self._spread(lambda item: self._put_once(*item), items)
        return [key for (key, _), stored in zip(items, is_stored, strict=True) if not stored]

    def _put_once(self, key: str, data: bytes) -> bool:
        for _ in range(_TRIES_OF_A_NAME):
            if self.put_new(key, data):
                return True
            try:
                is_same = self.get(key) == data
            except DocumentMissing:
                continue  # it was deleted just now, or the server refused one of two writes at the same moment
            if is_same:
                # Retention goes by when an object was last written, and this one is needed from now on.
                self.put(key, data)
            return is_same
        raise StoreUnavailable(f"{self.uri}: {key} is there when it is written and not when it is read; try again")

    def get_many(
        self, keys: Sequence[str], most_bytes: int | None = None, other_bytes: Sequence[int] = ()
    ) -> list[bytes | DocumentMissing]:
        """Return the objects of ``keys`` in their order, with an error in place of each that is not there.

        :param most_bytes: begin no further object when those so far have so many bytes. Then the result is shorter than
            ``keys``, but has one at least.
        :param other_bytes: of each key, how many bytes count besides, of what comes before it and is not an object.
        :raises StoreUnavailable: as ``get``.
        """
        got_bytes = 0
        counting = Lock()

        def get(key: str) -> bytes | DocumentMissing:
            nonlocal got_bytes
            try:
                data = self.get(key)
            except DocumentMissing as missing:
                return missing
            with counting:
                got_bytes += len(data)
            return data

        def is_enough(index: int) -> bool:
            other = other_bytes[index] if other_bytes else 0
            return most_bytes is not None and got_bytes + other >= most_bytes

        return self._spread(get, keys, is_enough)

    def get_range(self, wanted: ByteRange) -> bytes:
        """Return bytes of an object. If the object ends before the range does, the result is shorter, or empty.

        :raises DocumentMissing: there is no such object.
        :raises StoreUnavailable: the store did not answer.
        """
        check_key(wanted.key)
        try:
            return bytes(obstore.get_range(self._backend, wanted.key, start=wanted.start, end=wanted.end))
        except (BaseError, OSError) as error:
            if self._is_behind_the_end(error):
                return b""
            raise self._not_got("get", wanted.key, error) from error

    def get_ranges(self, wanted: Sequence[ByteRange]) -> list[bytes | DocumentMissing]:
        """Return ranges of objects in their order, with an error in place of each whose object is not there.

        :raises StoreUnavailable: as ``get_range``.
        """

        def get(each: ByteRange) -> bytes | DocumentMissing:
            try:
                return self.get_range(each)
            except DocumentMissing as missing:
                return missing

        return self._spread(get, wanted)

    def _spread(
        self,
        work: Callable[[_Item], _Result],
        items: Sequence[_Item],
        is_enough: Callable[[int], bool] = lambda _: False,
    ) -> list[_Result]:
        """Do work on every item, side by side; return the results in order.

        Each thread takes the next item by itself: a future for every item costs as much as a small request.

        :param is_enough: whether to begin neither the item of an index nor those behind it. The first is always begun.
        """
        if len(items) < 2:
            return [work(item) for item in items]
        results: list[_Result | None] = [None] * len(items)
        left = iter(range(len(items)))  # threads may share it: each call of next is atomic
        ends = [len(items)]
        has_failed = False

        def run() -> None:
            nonlocal has_failed
            while not has_failed and (index := next(left, None)) is not None:
                if index and is_enough(index):
                    ends.append(index)
                    return
                try:
                    results[index] = work(items[index])
                except BaseException:
                    has_failed = True
                    raise

        futures = [self._pool.submit(run) for _ in range(min(_CONCURRENCY, len(items)))]
        wait(futures)
        for future in futures:
            future.result()
        return cast("list[_Result]", results[: min(ends)])

    def exists(self, key: str) -> bool:
        """Say whether there is an object.

        :raises StoreUnavailable: the store did not answer.
        """
        check_key(key)
        try:
            obstore.head(self._backend, key)
        except (BaseError, OSError):
            # S3's answer to HEAD has no body, so it cannot say what was not found: object, bucket or account.
            return not isinstance(self.get_many([key])[0], DocumentMissing)
        return True

    def missing(self, keys: Sequence[str]) -> Sequence[str]:
        """Return those of some keys that have no object.

        :raises StoreUnavailable: as ``exists``.
        """
        return [key for key, is_there in zip(keys, self._spread(self.exists, keys), strict=True) if not is_there]

    def list(self, prefix: str = "") -> Iterator[str]:
        """Return the keys below ``prefix``, a whole number of key parts, in no order.

        :raises StoreUnavailable: the store did not answer.
        """
        return (each.key for each in self.describe(prefix))

    def describe(self, prefix: str = "") -> Iterator[StoredObject]:
        """Return the objects below ``prefix``, as ``list`` does their keys. The objects themselves are not read.

        :raises StoreUnavailable: the store did not answer.
        """
        if prefix:
            check_key(prefix)
        try:
            for page in obstore.list(self._backend, prefix or None):
                for entry in page:
                    yield StoredObject(entry["path"], entry["size"], entry["last_modified"])
        except (BaseError, OSError) as error:
            raise self._failed("list", prefix, error) from error

    def is_unchanged(self, listed: StoredObject) -> bool:
        """Tell whether an object is there that was not written again since it was listed.

        :raises StoreUnavailable: the store did not answer.
        """
        modified_at = self.modified_at(listed.key)
        # A list of S3 has milliseconds, an answer to HEAD has not.
        return modified_at is not None and modified_at.replace(microsecond=0) <= listed.modified_at

    def modified_at(self, key: str) -> datetime | None:
        """Return when an object was written; None if it is not there.

        :raises StoreUnavailable: the store did not answer.
        """
        check_key(key)
        try:
            found: datetime = obstore.head(self._backend, key)["last_modified"]
        except (BaseError, OSError) as error:
            if self.exists(key):
                raise self._failed("look at", key, error) from error
            return None
        return found

    def delete(self, key: str) -> None:
        """Remove an object. If it is not there, nothing happens.

        :raises StoreUnavailable: the store did not answer.
        """
        check_key(key)
        try:
            obstore.delete(self._backend, key)
        except (BaseError, OSError) as error:
            trouble = self._not_got("delete", key, error)
            if not isinstance(trouble, DocumentMissing):
                raise trouble from error

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove several objects at once. After an error some are gone and some are not; repeat them all.

        :raises StoreUnavailable: as ``delete``.
        """
        self._spread(self.delete, keys)

    def delete_unchanged(self, listed: Sequence[StoredObject]) -> Sequence[StoredObject]:
        """Remove objects unless they were written again since they were listed, and return those that were removed.

        Each is looked at just before it is removed. What is written between these two requests is removed as well.

        :raises StoreUnavailable: the store did not answer. Some are gone and some are not; list them again.
        """

        def delete(each: StoredObject) -> bool:
            if not self.is_unchanged(each):
                return False
            self.delete(each.key)
            return True

        gone = self._spread(delete, listed)
        return [each for each, is_gone in zip(listed, gone, strict=True) if is_gone]

    def _not_got(self, verb: str, key: str, error: Exception) -> DocumentMissing | StoreUnavailable | StoreRefused:
        """Tell "no such object" from "no such bucket, mount or account", where no document is to blame."""
        if self._folder is None:
            answer = read_answer(str(error))
            missing = isinstance(error, _NOT_FOUND) and answer is not None and answer.code == "NoSuchKey"
        else:
            not_there = isinstance(error, _NOT_IN_FOLDER) or "(os error 20)" in str(error)
            missing = not_there and self._folder.is_dir()
        if missing:
            return DocumentMissing(f"there is no object {key} in {self.uri}")
        return self._failed(verb, key, error)

    def _is_behind_the_end(self, error: Exception) -> bool:
        """Tell whether a range was refused because it begins where the object has ended."""
        if self._folder is not None:
            return "StartTooLarge" in str(error)
        answer = read_answer(str(error))
        return answer is not None and answer.status == _RANGE_NOT_SATISFIABLE

    def _failed(self, verb: str, key: str, error: Exception) -> StoreUnavailable | StoreRefused:
        answer = read_answer(str(error)) if self._folder is None else None
        if answer is not None and answer.is_refusal:
            return StoreRefused(f"{self.uri}: could not {verb} {key!r}: {answer.way_out}")
        if isinstance(error, _NOT_ALLOWED):
            return StoreRefused(f"{self.uri}: could not {verb} {key!r}: access is denied; correct the folder's rights")
        return StoreUnavailable(f"{self.uri}: could not {verb} {key!r}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """obstore's messages contain pages of debug output; the first line is what a person can use."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0].removesuffix(_XML_HEAD)
    answer = read_answer(str(error))
    return f"{text[:500]}{answer.code if answer else ''}"
