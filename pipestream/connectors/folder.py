"""Documents from a folder of files."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from google.protobuf.message import DecodeError

from pipestream.connectors.connector import Unreadable
from pipestream.connectors.media import media_type
from pipestream.errors import ConnectorInvalid, SourceUnreadable
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipestream.plugins import PluginContext

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are refused: a document is held in memory, and its object is sent in one request."""

_OPTIONS = {"path", "pattern", "recursive", "max_bytes"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
# Leaves room for the hash within the 200 characters of a key's part.
_MAX_NAME_LENGTH = 120


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

    @classmethod
    def from_options(cls, options: Mapping[str, Any], sources_folder: Path) -> FolderConnector:
        """Make a connector from the options in a graph; a relative path starts from ``sources_folder``.

        :raises ConnectorInvalid: an option is missing, unknown or of the wrong type.
        """
        if unknown := sorted(set(options) - _OPTIONS):
            raise ConnectorInvalid(
                f"folder connector: unknown option {', '.join(unknown)}; it has {', '.join(sorted(_OPTIONS))}"
            )
        expected = {"path": str, "pattern": str, "recursive": bool, "max_bytes": int}
        for name, value in options.items():
            if type(value) is not expected[name]:
                raise ConnectorInvalid(f"folder connector: {name} must be {expected[name].__name__}, not {value!r}")
        if not options.get("path"):
            raise ConnectorInvalid("folder connector: path is missing; name the folder of the documents")
        return cls(**{**options, "path": sources_folder / options["path"]})

    def documents(self) -> Iterator[PipeDoc | Unreadable]:
        root = self.path.resolve()
        if not root.is_dir():
            raise SourceUnreadable(f"folder connector: {self.path} is not a folder; make it or correct the path")
        for file in self._files(root):
            relative = file.relative_to(root).as_posix()
            try:
                yield self._document(root, file, relative)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                yield Unreadable(relative.encode(errors="replace").decode(), reason)

    def _files(self, root: Path) -> list[Path]:
        found = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if self.recursive and not name.startswith(".")]
            found += [
                Path(folder, name)
                for name in names
                if not name.startswith(".") and fnmatch.fnmatchcase(name, self.pattern)
            ]
        return sorted(found, key=lambda file: file.relative_to(root).as_posix().encode(errors="surrogateescape"))

    def _document(self, root: Path, file: Path, relative: str) -> PipeDoc:
        try:
            relative.encode()
        except UnicodeEncodeError:
            raise ValueError("the file's name is not UTF-8; rename it") from None
        if not file.resolve(strict=True).is_relative_to(root):
            raise ValueError("a symbolic link that leads out of the folder")
        if not file.is_file():
            raise ValueError("neither a file nor a link to one")
        data = self._read(file)
        modified = datetime.fromtimestamp(int(file.stat().st_mtime), UTC)
        if file.suffix == ".pb":
            return _stored_document(data, relative)
        return _file_document(data, relative, modified)

    def _read(self, file: Path) -> bytes:
        # One byte more than allowed, so that a file that grows while it is read is noticed too.
        with file.open("rb") as opened:
            data = opened.read(self.max_bytes + 1)
        if len(data) > self.max_bytes:
            raise ValueError(
                f"{file.stat().st_size} bytes, above the limit of {self.max_bytes}; raise max_bytes or split it"
            )
        return data


def open_folder(options: Mapping[str, Any], context: PluginContext) -> FolderConnector:
    """Make the connector of kind ``folder``."""
    return FolderConnector.from_options(options, context.settings.sources_folder)


def document_id(relative_path: str) -> str:
    """Return the id of the document at a path: readable, and as unique as the path."""
    name = _UNSAFE.sub("-", relative_path).strip("-.")[-_MAX_NAME_LENGTH:].lstrip("-.")
    digest = hashlib.sha256(relative_path.encode()).hexdigest()[:16]
    return f"{name}-{digest}" if name else digest


def _file_document(data: bytes, relative: str, modified: datetime) -> PipeDoc:
    name = relative.rpartition("/")[2]
    kind = media_type(name, data)
    document = PipeDoc()
    blob = document.blob_bag.blob
    blob.blob_id = "0"
    blob.data = data
    blob.filename = name
    blob.mime_type = kind
    blob.size_bytes = len(data)
    blob.checksum = hashlib.sha256(data).hexdigest()
    blob.checksum_type = wire.CHECKSUM_TYPE_SHA256
    found = document.search_metadata
    found.title = name.rpartition(".")[0] or name
    found.mime_type = kind
    found.content_length = len(data)
    found.last_modified_date.FromDatetime(modified)
    _name(document, relative)
    return document


def _stored_document(data: bytes, relative: str) -> PipeDoc:
    try:
        document = PipeDoc.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not a PipeDoc: {error}") from error
    # Any bytes that happen to parse leave a message without a single known field.
    if not document.ListFields():
        raise ValueError("not a PipeDoc: it has none of its fields")
    if not document.doc_id:
        _name(document, relative)
    return document


def _name(document: PipeDoc, relative: str) -> None:
    document.doc_id = document_id(relative)
    document.doc_id_derivation.method = wire.DOC_ID_DERIVATION_METHOD_SOURCE_PATH
    document.doc_id_derivation.input = relative
    document.doc_id_derivation.canonical_input = relative
    found = document.search_metadata
    # From the folder on, not from the machine's root: the same files are the same documents wherever it lies.
    found.source_uri = f"file:///{quote(relative)}"
    found.source_path = relative
    found.source_path_segments[:] = relative.split("/")
