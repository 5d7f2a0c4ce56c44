"""What another package may add to Pipestream; docs/extending.md shows these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestream import ModuleContext, PipeDoc
from pipestream.errors import ModuleFailed, ModuleUnavailable, SourceUnreadable
from pipestream.leases.none import NoLeaseStore
from pipestream.plugins import PluginContext
from pipestream.wire import PipeStream


@dataclass(frozen=True)
class LinesConnector:
    """Every line of a file is a document."""

    file: Path
    token: str

    def documents(self) -> Iterator[PipeDoc]:
        if self.token != "open sesame":
            raise SourceUnreadable("acme: the token is not right")
        for line in self.file.read_text().splitlines():
            document = PipeDoc(doc_id=hashlib.sha256(line.encode()).hexdigest()[:16])
            document.search_metadata.title = line
            yield document


def open_lines(options: Mapping[str, Any], context: PluginContext) -> LinesConnector:
    if "file" not in options:
        raise ValueError("file is missing; name the file whose lines are documents")
    return LinesConnector(context.settings.sources_folder / options["file"], context.secret("acme.token"))


class Shout:
    """Makes titles loud."""

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc]:
        if not document.search_metadata.title:
            raise ModuleFailed(f"{context.node_id}: a document without a title")
        document.search_metadata.title = document.search_metadata.title.upper()
        return [document]

    def close(self) -> None:
        """It holds nothing."""


def open_module(target: str, context: PluginContext) -> Shout:
    if target != "shout":
        raise ValueError(f"acme has no {target!r}; it has shout")
    return Shout()


def open_leases(context: PluginContext) -> NoLeaseStore:
    return NoLeaseStore()


class FileTransport:
    """Appends a line for each stream to a file that another program reads."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(
        self, stream: PipeStream, idempotency_key: str, timeout_s: float, deadline: float | None = None
    ) -> None:
        try:
            with self._file.open("a") as file:
                file.write(f"{idempotency_key} {stream.document.search_metadata.title}\n")
        except OSError as error:
            raise ModuleUnavailable(f"acme-file: {error}") from error

    def close(self) -> None:
        """It holds nothing."""


def open_file(target: str, context: PluginContext) -> FileTransport:
    if target.startswith("/"):
        raise ValueError("the file must be relative to sources_folder")
    return FileTransport(context.settings.sources_folder / target)
