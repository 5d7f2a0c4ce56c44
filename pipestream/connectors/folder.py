"""Documents from a folder of files: all of them, or those that are not the ones seen before."""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from google.protobuf.message import DecodeError
from pydantic import Field

from pipestream.connectors.connector import LeftOut, Seen, Unreadable
from pipestream.connectors.files import file_document, name_by_path
from pipestream.connectors.options import MAX_FILE_BYTES, IncrementalOptions, read_options
from pipestream.errors import SourceUnreadable
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipestream.connectors.connector import Found, Memory
    from pipestream.plugins import PluginContext

_STATES_AT_ONCE = 500
# The coarsest time that a file system keeps. A file that changed so lately may change again and keep its time.
_YOUNG_S = 2.0


class FolderOptions(IncrementalOptions):
    """The options of the kind ``folder``."""

    kind: ClassVar[str] = "folder"
    limits: ClassVar[frozenset[str]] = frozenset({"max_documents", "max_bytes"})

    path: str = Field(min_length=1, description="The folder; a relative one starts from PIPESTREAM_SOURCES_FOLDER.")
    pattern: str = Field("*", description="Only files whose names match, with * and ?.")
    recursive: bool = Field(True, description="Whether files in folders below are taken, too.")
    max_bytes: int = Field(MAX_FILE_BYTES, ge=1, description="Larger files are reported and not taken.")


@dataclass(frozen=True, slots=True)
class FolderConnector:
    """Every file below ``path`` whose name matches ``pattern``, in the order of the relative paths.

    A ``.pb`` file is already a document and is used unchanged. Symbolic links are followed only to files inside the
    folder. Hidden files and folders, whose names start with a dot, are left out.
    """

    path: Path
    pattern: str = "*"
    recursive: bool = True
    max_bytes: int = MAX_FILE_BYTES

    def documents(self) -> Iterator[PipeDoc | Unreadable]:
        root = self.find_root()
        for relative in self.files(root):
            try:
                yield self.document(root, relative, self.stat(root, relative))
            except (OSError, ValueError) as error:
                yield _unreadable(relative, error)

    def find_root(self) -> Path:
        """Return where the folder really is.

        :raises SourceUnreadable: it is not a folder.
        """
        root = self.path.resolve()
        if not root.is_dir():
            raise SourceUnreadable(f"folder connector: {self.path} is not a folder; make it or correct the path")
        return root

    # Paths are plain strings from here on: to make and join objects of pathlib takes longer than to read a small file.

    def files(self, root: Path) -> list[str]:
        """Return the paths of the files, from the folder on. Folders that are links are not entered."""
        found = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if self.recursive and not name.startswith(".")]
            below = os.path.relpath(folder, root)
            found += [
                name if below == "." else f"{below}/{name}"
                for name in names
                if not name.startswith(".") and fnmatch.fnmatchcase(name, self.pattern)
            ]
        return sorted(found, key=os.fsencode)

    def stat(self, root: Path, relative: str) -> os.stat_result:
        """Return what the file system says of a file.

        :raises ValueError, OSError: it is not one that can be taken.
        """
        try:
            relative.encode()
        except UnicodeEncodeError:
            raise ValueError("the file's name is not UTF-8; rename it") from None
        file = f"{root}/{relative}"
        found = os.lstat(file)
        if stat.S_ISLNK(found.st_mode):
            if not Path(file).resolve(strict=True).is_relative_to(root):
                raise ValueError("a symbolic link that leads out of the folder")
            found = Path(file).stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("neither a file nor a link to one")
        return found

    def document(self, root: Path, relative: str, found: os.stat_result) -> PipeDoc:
        """Read a file.

        :param found: from ``stat``.
        :raises ValueError, OSError: it cannot be read.
        """
        data = self._read(f"{root}/{relative}", found.st_size)
        if relative.endswith(".pb"):
            return _stored_document(data, relative)
        return file_document(data, relative, _uri(relative), datetime.fromtimestamp(int(found.st_mtime), UTC))

    def _read(self, file: str, size_bytes: int) -> bytes:
        with open(file, "rb") as opened:  # noqa: PTH123
            # One byte more, so that a file that grows while it is read is noticed too.
            data = opened.read(min(size_bytes, self.max_bytes) + 1)
            if len(data) > size_bytes:
                data += opened.read(self.max_bytes + 1 - len(data))
        if len(data) > self.max_bytes:
            raise ValueError(
                f"{Path(file).stat().st_size} bytes, above the limit of {self.max_bytes}; raise max_bytes or split it"
            )
        return data


@dataclass(frozen=True, slots=True)
class NewFilesConnector:
    """The files of a folder whose size or times are not those seen before: what the kind ``folder`` means."""

    folder: FolderConnector
    scope: str
    max_documents: int = 0
    now: Callable[[], float] = time.time

    def changes(self, memory: Memory) -> Iterator[Found]:
        root = self.folder.find_root()
        files = self.folder.files(root)
        for start in range(0, len(files), _STATES_AT_ONCE):
            group = files[start : start + _STATES_AT_ONCE]
            known = memory.recall([_printable(relative) for relative in group])
            for relative in group:
                yield from self._look(root, relative, known.get(_printable(relative)))

    def _look(self, root: Path, relative: str, known: Mapping[str, Any] | None) -> Iterator[Found]:
        looked_at = self.now()
        try:
            # Before it is read: if it changes meanwhile, the next run reads it again.
            found = self.folder.stat(root, relative)
            state = {"size": found.st_size, "modified_ns": found.st_mtime_ns, "changed_ns": found.st_ctime_ns}
            if state == known:
                yield LeftOut(relative, "unchanged since an earlier run")
                return
            document = self.folder.document(root, relative, found)
        except (OSError, ValueError) as error:
            yield _unreadable(relative, error)
            return
        yield document
        is_young = max(found.st_mtime, found.st_ctime) > looked_at - _YOUNG_S
        yield Seen(relative, {} if is_young else state)


def open_folder(options: Mapping[str, Any], context: PluginContext) -> NewFilesConnector:
    """Make the connector of kind ``folder``; a relative path starts from ``sources_folder``.

    :raises ConnectorInvalid: an option is missing, unknown or of the wrong type.
    """
    read = read_options(FolderOptions, options)
    path = context.settings.sources_folder / read.path
    folder = FolderConnector(path, read.pattern, read.recursive, read.max_bytes)
    return NewFilesConnector(folder, read.scope, read.max_documents)


def _unreadable(relative: str, error: OSError | ValueError) -> Unreadable:
    """Return why a file was not taken."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Unreadable(_printable(relative), reason)


def _printable(relative: str) -> str:
    """Return a path as text that can be stored: a name that is not UTF-8 has surrogates."""
    return relative.encode(errors="replace").decode()


def _stored_document(data: bytes, relative: str) -> PipeDoc:
    try:
        document = PipeDoc.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not a PipeDoc: {error}") from error
    # Any bytes that happen to parse leave a message without a single known field.
    if not document.ListFields():
        raise ValueError("not a PipeDoc: it has none of its fields")
    if not document.doc_id:
        name_by_path(document, relative, _uri(relative))
    return document


def _uri(relative: str) -> str:
    """From the folder on, not from the machine's root: the same files are the same documents wherever it lies."""
    return f"file:///{quote(relative)}"
