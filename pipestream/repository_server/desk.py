"""What both front doors share: find the datasource, take documents in, find and delete them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import DecodeError

from pipestream.documents.fetch import fetch_document
from pipestream.documents.identity import Prepared, prepare
from pipestream.documents.references import DocumentPlace, upload_key
from pipestream.documents.tables import Tables
from pipestream.documents.uploads import Uploads
from pipestream.errors import DatasourceUnknown, DocumentMissing, RecordInvalid
from pipestream.repository_server.datasources import Datasources
from pipestream.retention.policies import BLOBS
from pipestream.retention.policies import UPLOADS as UPLOAD_ROOT
from pipestream.telemetry.dependencies import DependencyWatch
from pipestream.telemetry.metrics import UPLOADS
from pipestream.telemetry.tracing import header_of, span
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.documents.catalogue import Catalogued, Recorded
    from pipestream.graph.model import Datasource
    from pipestream.settings import Settings

Result = TypeVar("Result")

_THREADS = 16


class Desk:
    """The work of the Repository, in threads, for servers that run in an event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tables = Tables(settings, connections=_THREADS + 4)
        self.uploads = Uploads(settings, self.tables)
        self.datasources = Datasources(settings)
        self.on_recorded: Callable[[], None] = lambda: None
        """Called after references were put into the outbox."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="repository")

    def watch_dependencies(self) -> DependencyWatch:
        """Return a watch of what no call can do without. Kafka is not: a reference waits in the outbox."""
        store = partial(self.uploads.store.exists, UPLOAD_ROOT)
        return DependencyWatch({"PostgreSQL": self.tables.check, "the object store": store})

    def close(self) -> None:
        """Give back threads and connections."""
        self._threads.shutdown()
        self.uploads.close()
        self.datasources.close()
        self.tables.close()

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do work that waits for a server, in a thread. It goes on if the caller goes away."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def require(self, datasource_id: str) -> Datasource:
        """Return a datasource.

        :raises DatasourceUnknown: no applied graph has it.
        :raises DatasourceContested: graphs have it for different accounts.
        """
        found = self.datasources.find(datasource_id)
        if found is None:
            raise DatasourceUnknown(datasource_id)
        return found

    def prepare(self, document: PipeDoc, datasource: Datasource, metadata: Mapping[str, str] | None = None) -> Prepared:
        """Return a document as it will be stored; its large blobs are objects of their own."""
        limit = self.settings.repository_max_inline_bytes
        return prepare(document, datasource, max_inline_bytes=limit, metadata=metadata)

    def take_in(self, prepared: Prepared, datasource: Datasource, traceparent: str = "") -> Recorded:
        """Store and record an upload. It is durable then, and published by the relay.

        :param traceparent: the header of the caller's trace. The document carries it on.
        """
        names = {"pipestream.datasource": datasource.datasource_id}
        with span(f"upload {datasource.datasource_id}", traceparent, **names) as traced:
            traced_upload = replace(prepared, traceparent=header_of(traced))
            (recorded,) = self.uploads.record([traced_upload], datasource)
        UPLOADS.labels(datasource.datasource_id, recorded.outcome).inc()
        if recorded.waiting_id is not None:
            self.on_recorded()
        return recorded

    def keep(self, prepared: Prepared, datasource: Datasource) -> Recorded:
        """Store and record a document that is not an upload: nothing is published."""
        (recorded,) = self.uploads.record([prepared], datasource, is_announced=False)
        return recorded

    def find(self, account_id: str, datasource_id: str, doc_id: str) -> Catalogued:
        """Return a document's row.

        :raises DocumentMissing: there is none.
        """
        found = self.uploads.catalogue.find(account_id, datasource_id, doc_id)
        if found is None:
            raise DocumentMissing(f"account {account_id!r} has no document {doc_id!r} at {datasource_id!r}")
        return found

    def read(self, place: DocumentPlace) -> tuple[PipeDoc, int]:
        """Return a stored document and its size.

        :raises DocumentMissing: there is no such object.
        :raises SegmentDamaged: a segment does not have it at that place.
        """
        data = fetch_document(self.uploads.store, place)
        try:
            return PipeDoc.FromString(data), len(data)
        except DecodeError as error:
            raise RecordInvalid(f"the object {place} is not a PipeDoc: {error}") from error

    def delete(self, account_id: str, datasource_id: str, doc_id: str, *, purge: bool) -> tuple[bool, int]:
        """Delete a document; return whether the catalogue had it, and how many objects were deleted.

        :param purge: delete all its versions and blobs as well, at once. A record that still refers to one becomes a
            dead letter when it is read. Otherwise they expire, as its datasource says.
        """
        upload_key(account_id, datasource_id, doc_id, "0" * 64)  # checks the ids
        store = self.uploads.store
        place = f"{account_id}/{datasource_id}/{doc_id}"
        # Listed before the row goes: what is uploaded after that is another document, and keeps its objects.
        roots = (UPLOAD_ROOT, BLOBS) if purge else ()
        listed = [each for root in roots for each in store.describe(f"{root}/{place}")]
        was_there = self.uploads.catalogue.remove(account_id, datasource_id, doc_id)
        return was_there, len(store.delete_unchanged(listed))
