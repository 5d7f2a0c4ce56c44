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
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pipestream.documents.identity import Prepared, prepare
from pipestream.documents.memory import ConnectorMemory
from pipestream.documents.outbox import Outbox
from pipestream.documents.publish import IntakeTopics
from pipestream.documents.relay import Relay
from pipestream.documents.tables import Tables
from pipestream.documents.uploads import Uploads
from pipestream.errors import IdInvalid, PipestreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pipestream.documents.catalogue import Outcome, Recorded
    from pipestream.graph.model import Datasource
    from pipestream.settings import Settings
    from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)

# A batch costs a dozen round trips; with 500 documents they are small next to the objects.
_BATCH_DOCUMENTS = 500
# With the batch that is being gathered, at most 64 MB are in memory unless a document alone is larger. What is recorded
# needs no memory any more.
_BATCH_BYTES = 16 * 1024 * 1024
_BATCHES_IN_MEMORY = 3
# Publishing may fall behind, because the relay takes a second to start at worst. Then it publishes several batches at
# once. Of these, only rows of the catalogue are in memory.
_BATCHES_UNDER_WAY = 12

_Result = TypeVar("_Result")


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
        # A step of one batch overlaps with other steps of the others. One thread each keeps the order of batches.
        self._storing = ThreadPoolExecutor(1, thread_name_prefix="upload-storing")
        self._recording = ThreadPoolExecutor(1, thread_name_prefix="upload-recording")
        self._publishing = ThreadPoolExecutor(1, thread_name_prefix="outbox")

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is being uploaded, and give back connections and threads."""
        for step in (self._storing, self._recording, self._publishing):
            step.shutdown()
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
        # Its start takes a second at worst, which passes while the first batches are gathered, stored and recorded.
        self._publishing.submit(_start_quietly, relay)
        under_way: list[_Batch] = []
        try:
            for batch in self._batches(documents, datasource, refused):
                under_way.append(self._begin(batch, datasource, force, relay, under_way[-1:]))
                while under_way and (under_way[0].published.done() or len(under_way) == _BATCHES_UNDER_WAY):
                    yield from _finish(under_way.pop(0), topic)
                if _wait_for_memory(under_way):
                    break  # a batch has failed, and so will all behind it
        except PipestreamError:
            # Of the source, or of a batch. Behind a batch that failed, all others fail.
            for begun in under_way:
                yield from _finish(begun, topic)
            raise
        for begun in under_way:
            yield from _finish(begun, topic)

    def memory(self, datasource: Datasource, scope: str) -> ConnectorMemory:
        """Return what the datasource's connector has seen. Remember only what covers documents that are uploaded."""
        return ConnectorMemory(self._tables, datasource, scope)

    def publish_pending(self, datasource: Datasource) -> int:
        """Publish what was recorded and not published; return how many references.

        :raises TopicMissing: the datasource has no intake topic.
        :raises DatabaseUnavailable, BrokerUnavailable: repeat it.
        """
        # Kafka is asked in another thread, because both it and PostgreSQL have to be connected to first.
        checked = self._publishing.submit(self._topics.check, datasource.datasource_id)
        self._uploads.announce_pending(datasource)
        waiting = self._outbox.ids(datasource.datasource_id)
        checked.result()
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
    ) -> Iterator[Sequence[Prepared]]:
        """Yield documents in batches, none of them twice in one.

        :raises IdInvalid: a document ends it all. Those before it are yielded first.
        """
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
                    yield list(batch.values())
                raise
            if len(batch) >= _BATCH_DOCUMENTS or size_bytes >= _BATCH_BYTES or prepared.doc_id in batch:
                yield list(batch.values())
                batch, size_bytes = {}, 0
            batch[prepared.doc_id] = prepared
            size_bytes += prepared.size_bytes + sum(len(data) for _, data in prepared.blobs)
        if batch:
            yield list(batch.values())

    def _begin(
        self,
        documents: Sequence[Prepared],
        datasource: Datasource,
        force: bool,
        relay: Relay,
        before: Sequence[_Batch],
    ) -> _Batch:
        """Begin to store, record and publish a batch, each step behind the same step of the batch before, if any."""
        put = partial(self._uploads.put, documents, datasource)
        stored = self._storing.submit(_do_after, put, *(each.stored for each in before))
        enter = partial(self._uploads.enter, documents, datasource, force=force)
        recorded = self._recording.submit(_do_after, enter, stored, *(each.recorded for each in before))

        def publish() -> None:
            relay.publish([each.waiting_id for each in recorded.result() if each.waiting_id is not None])

        published = self._publishing.submit(_do_after, publish, recorded, *(each.published for each in before))
        return _Batch(stored, recorded, published)


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that is under way."""

    stored: Future[None]
    recorded: Future[Sequence[Recorded]]
    published: Future[None]


def _do_after(work: Callable[[], _Result], *steps: Future[Any]) -> _Result:
    """Do work when other steps are done. If one has failed, fail as it has."""
    for step in steps:
        step.result()
    return work()


def _wait_for_memory(under_way: Sequence[_Batch]) -> bool:
    """Wait until the documents of few enough batches are in memory; return whether the batch waited for has failed."""
    if len(under_way) < _BATCHES_IN_MEMORY:
        return False
    return under_way[-_BATCHES_IN_MEMORY].recorded.exception() is not None


def _finish(batch: _Batch, topic: str) -> Iterator[Upload]:
    """Wait until a batch is published, and yield what became of its documents."""
    batch.published.result()
    recorded = batch.recorded.result()
    log.info(
        "%s: took in %d documents, %d of them published",
        topic,
        len(recorded),
        sum(each.waiting_id is not None for each in recorded),
    )
    for entry in recorded:
        row = entry.row
        yield Upload(
            doc_id=row.doc_id,
            object_key=row.object_key,
            checksum=row.checksum,
            size_bytes=row.size_bytes,
            topic=topic,
            outcome=entry.outcome,
            published=entry.waiting_id is not None,
        )


def _start_quietly(relay: Relay) -> None:
    with suppress(PipestreamError):  # whoever publishes tries again, and says why it fails
        relay.start()
