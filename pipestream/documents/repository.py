"""The way in for documents: store the object, record document and reference together, publish the reference.

Each upload is published exactly once, whatever dies when. Before the record, there is an object without a row, and the
next upload writes it again under the same key. The record is one transaction in PostgreSQL: the document's row in the
catalogue, and its reference in the outbox. From then on the relay publishes the reference once; ``relay.py`` says how.
An upload that is repeated after its record finds the same content, and publishes nothing more.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.documents.identity import Prepared, prepare
from pipestream.documents.memory import ConnectorMemory
from pipestream.documents.outbox import Outbox
from pipestream.documents.publish import IntakeTopics
from pipestream.documents.relay import Relay
from pipestream.documents.tables import Tables
from pipestream.documents.uploads import Uploads
from pipestream.errors import IdInvalid, PipestreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pipestream.documents.catalogue import Outcome, Recorded
    from pipestream.graph.model import Datasource
    from pipestream.settings import Settings
    from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)

# A batch costs three round trips; with 500 documents they are small next to the objects, and 32 MB bound the memory.
_BATCH_DOCUMENTS = 500
_BATCH_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """What an upload did."""

    doc_id: str
    object_key: str
    checksum: str
    size_bytes: int
    topic: str
    outcome: Outcome
    published: bool
    """Whether this upload published a reference; one that is there already is not published again."""


class Repository:
    """Takes documents in. A context manager; one per process.

    A paused datasource takes documents in as well: they wait in its intake topic.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tables = Tables(settings)
        self._uploads = Uploads(settings, self._tables)
        self._outbox = Outbox(self._tables)
        self._topics = IntakeTopics(settings)
        self._relays: dict[str, Relay] = {}
        # One thread: a batch is published while the next one is stored, and the order of batches is kept.
        self._publishing = ThreadPoolExecutor(1, thread_name_prefix="outbox")

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is being published, and give back connections and threads."""
        self._publishing.shutdown()
        for relay in self._relays.values():
            relay.close()
        self._uploads.close()
        self._tables.close()

    def upload(self, document: PipeDoc, datasource: Datasource, *, force: bool = False) -> Upload:
        """Take one document in; see ``upload_many``."""
        (upload,) = self.upload_many([document], datasource, force=force)
        return upload

    def upload_many(
        self,
        documents: Iterable[PipeDoc],
        datasource: Datasource,
        *,
        force: bool = False,
        refused: Callable[[PipeDoc, IdInvalid], None] | None = None,
    ) -> Iterator[Upload]:
        """Take documents in, in batches, and yield what became of each, in their order.

        :param force: publish also what is unchanged and published already.
        :param refused: called with each document whose id cannot be used, which is then left out.
        :raises TopicMissing: the datasource has no intake topic; nothing was stored.
        :raises IdInvalid: a document's id cannot be used, and ``refused`` was not given. Those before it are
            uploaded.
        :raises StoreUnavailable, DatabaseUnavailable, BrokerUnavailable: repeat the upload.
        """
        topic = self._topics.check(datasource.datasource_id)
        relay = self._relay(datasource)
        # Its start takes a second at worst, which passes while the first batch is gathered and stored.
        self._publishing.submit(_start_quietly, relay)
        before: _Recording | None = None
        for batch in self._batches(documents, datasource, refused):
            if isinstance(batch, IdInvalid):
                yield from _finish(before)
                raise batch
            try:
                recording = self._record(batch, datasource, topic, force, relay)
            except PipestreamError:
                yield from _finish(before)
                raise
            yield from _finish(before)
            before = recording
        yield from _finish(before)

    def memory(self, datasource: Datasource, scope: str) -> ConnectorMemory:
        """Return what the datasource's connector has seen. Remember only what covers documents that are uploaded."""
        return ConnectorMemory(self._tables, datasource, scope)

    def publish_pending(self, datasource: Datasource) -> int:
        """Publish what was recorded and not published; return how many references.

        :raises TopicMissing: the datasource has no intake topic.
        :raises DatabaseUnavailable, BrokerUnavailable: repeat it.
        """
        self._topics.check(datasource.datasource_id)
        self._uploads.announce_pending(datasource)
        waiting = self._outbox.ids(datasource.datasource_id)
        if waiting:
            self._publishing.submit(self._relay(datasource).publish, waiting).result()
        return len(waiting)

    def _relay(self, datasource: Datasource) -> Relay:
        found = self._relays.get(datasource.datasource_id)
        if found is None:
            found = self._relays[datasource.datasource_id] = Relay(
                self._settings, self._outbox, datasource.datasource_id
            )
        return found

    def _batches(
        self,
        documents: Iterable[PipeDoc],
        datasource: Datasource,
        refused: Callable[[PipeDoc, IdInvalid], None] | None,
    ) -> Iterator[Mapping[str, Prepared] | IdInvalid]:
        """Yield documents in batches, none of them twice in one; the error last, if a document ends it all."""
        batch: dict[str, Prepared] = {}
        size_bytes = 0
        for document in documents:
            try:
                prepared = prepare(document, datasource)
            except IdInvalid as error:
                if refused is not None:
                    refused(document, error)
                    continue
                if batch:
                    yield batch
                yield error
                return
            if len(batch) >= _BATCH_DOCUMENTS or size_bytes >= _BATCH_BYTES or prepared.doc_id in batch:
                yield batch
                batch, size_bytes = {}, 0
            batch[prepared.doc_id] = prepared
            size_bytes += prepared.size_bytes
        if batch:
            yield batch

    def _record(
        self, batch: Mapping[str, Prepared], datasource: Datasource, topic: str, force: bool, relay: Relay
    ) -> _Recording:
        """Store and record a batch, and begin to publish it."""
        recorded = self._uploads.record(list(batch.values()), datasource, force=force)
        waiting = [each.waiting_id for each in recorded if each.waiting_id is not None]
        log.info("%s: took in %d documents, %d references to publish", topic, len(batch), len(waiting))
        return _Recording(topic, recorded, self._publishing.submit(relay.publish, waiting))


@dataclass(frozen=True, slots=True)
class _Recording:
    """A batch that is recorded and being published."""

    topic: str
    recorded: Sequence[Recorded]
    published: Future[None]


def _finish(recording: _Recording | None) -> Iterator[Upload]:
    """Wait until a batch is published, and yield what became of its documents."""
    if recording is None:
        return
    recording.published.result()
    for entry in recording.recorded:
        row = entry.row
        yield Upload(
            doc_id=row.doc_id,
            object_key=row.object_key,
            checksum=row.checksum,
            size_bytes=row.size_bytes,
            topic=recording.topic,
            outcome=entry.outcome,
            published=entry.waiting_id is not None,
        )


def _start_quietly(relay: Relay) -> None:
    with suppress(PipestreamError):  # whoever publishes tries again, and says why it fails
        relay.start()
