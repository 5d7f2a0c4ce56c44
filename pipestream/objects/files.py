"""Objects as files in a folder, by plain system calls.

obstore does the same, but hands each call to a thread of its own runtime and waits for it. Where there is no network to
wait for, that takes longer than the call: it reads a file of 1 KB in 60 to 110 µs of CPU time, and this in 12.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from pipestream.errors import StoreRefused

# What file systems answer that have no hard links, such as FAT and some network drives. EPERM is not about rights here:
# a missing right is EACCES.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class Files:
    """The files of a folder, by key. Every key is checked by the caller: it leads to a place inside the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    # Plain strings and open: to make and join objects of pathlib takes as long as to read a small file.

    def read(self, key: str) -> bytes:
        """Return a file's bytes."""
        with open(f"{self._folder}/{key}", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()

    def write(self, key: str, data: bytes) -> None:
        """Write a file, over one that may be there. A reader sees the whole file or none."""
        path = f"{self._folder}/{key}"
        aside = _write_aside(path, data)
        try:
            os.replace(aside, path)  # noqa: PTH105
        except BaseException:
            os.unlink(aside)  # noqa: PTH108
            raise

    def write_new(self, key: str, data: bytes) -> bool:
        """Write a file unless there is one, and say whether it was written. A reader sees the whole file or none.

        :raises StoreRefused: the file system has no hard links, and no other call is both whole and exclusive.
        """
        path = f"{self._folder}/{key}"
        aside = _write_aside(path, data)
        try:
            os.link(aside, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise StoreRefused(
                f"{path}: its file system has no hard links, which a store needs to never change an object; set "
                f"store_uri to a folder on another file system, or to S3"
            ) from error
        finally:
            os.unlink(aside)  # noqa: PTH108
        return True


def _write_aside(path: str, data: bytes) -> str:
    """Write data to a new file next to a path, and return where.

    Its name ends with # and digits, as the names of obstore's own unfinished files do: obstore lists neither.
    """
    # Not from the random module, whose state the processes that Spark forks share.
    aside = f"{path}#{int.from_bytes(os.urandom(8))}"
    try:
        _write(aside, data)
    except FileNotFoundError:
        _make_folder(os.path.dirname(path))  # noqa: PTH120
        _write(aside, data)
    return aside


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:  # noqa: PTH123
        try:
            file.write(data)
            file.flush()
        except BaseException:
            os.unlink(path)  # noqa: PTH108
            raise


def _make_folder(path: str) -> None:
    # Usually only the last part is missing: a stream's outputs have a folder of their own.
    try:
        with suppress(FileExistsError):
            os.mkdir(path)  # noqa: PTH102
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
