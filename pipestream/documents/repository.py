"""The way in for documents: store, enter into the catalogue, publish the reference, in this order.

A crash after any step loses nothing. Before the catalogue, the object is there without a row, and the next
upload writes it again under the same key. Before the publication, the row says that it is pending: the next
upload of the document publishes it, and so does ``publish_pending``. A crash between Kafka's confirmation and
the note of it publishes a reference twice, so intake is at least once; from the intake topic on it is exactly
once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.documents.catalogue import Catalogue, Row
from pipestream.documents.identity import Prepared, prepare
from pipestream.documents.publish import IntakePublisher
from pipestream.documents.references import upload_key
from pipestream.errors import IdInvalid
from pipestream.objects.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pipestream.documents.catalogue import Catalogued, Outcome
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
        self._store = open_store(settings.store_uri, settings)
        self._catalogue = Catalogue(settings)
        self._publisher = IntakePublisher(settings)

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back connections and threads."""
        self._publisher.close()
        self._catalogue.close()
        self._store.close()

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
        topic = self._publisher.check_topic(datasource)
        batch: dict[str, Prepared] = {}
        size_bytes = 0
        for document in documents:
            try:
                prepared = prepare(document, datasource)
            except IdInvalid as error:
                if refused is not None:
                    refused(document, error)
                    continue
                yield from self._upload(batch, datasource, topic, force)
                raise
            if len(batch) >= _BATCH_DOCUMENTS or size_bytes >= _BATCH_BYTES or prepared.doc_id in batch:
                yield from self._upload(batch, datasource, topic, force)
                batch, size_bytes = {}, 0
            batch[prepared.doc_id] = prepared
            size_bytes += prepared.size_bytes
        yield from self._upload(batch, datasource, topic, force)

    def publish_pending(self, datasource: Datasource) -> int:
        """Publish what was stored and catalogued but not confirmed by Kafka; return how many references.

        Do not run it during an upload to the same datasource: the batch of the upload is pending too and would be
        published twice.

        :raises TopicMissing: the datasource has no intake topic.
        :raises DatabaseUnavailable, BrokerUnavailable: repeat it.
        """
        self._publisher.check_topic(datasource)
        published = 0
        after = ""
        while True:
            rows = self._catalogue.list(
                datasource.account_id,
                datasource.datasource_id,
                after=after,
                limit=_BATCH_DOCUMENTS,
                pending=True,
            )
            if not rows:
                return published
            self._publish(rows, datasource)
            published += len(rows)
            after = rows[-1].doc_id

    def _publish(self, rows: Sequence[Catalogued], datasource: Datasource) -> None:
        if not rows:
            return
        confirmed, error = self._publisher.publish(rows, datasource)
        # Also when some failed: what is noted now is not published twice by the next try.
        self._catalogue.mark_published(confirmed)
        if error is not None:
            raise error

    def _upload(
        self, batch: Mapping[str, Prepared], datasource: Datasource, topic: str, force: bool
    ) -> Iterator[Upload]:
        if not batch:
            return
        rows = [_row(prepared, datasource) for prepared in batch.values()]
        self._store.put_many([(row.object_key, batch[row.doc_id].data) for row in rows])
        recorded = self._catalogue.record(rows)
        due = [entry.row for entry in recorded if force or entry.row.published_at is None]
        self._publish(due, datasource)
        log.info("%s: took in %d documents, published %d references", topic, len(batch), len(due))
        published = {row.doc_id for row in due}
        for entry in recorded:
            row = entry.row
            yield Upload(
                doc_id=row.doc_id,
                object_key=row.object_key,
                checksum=row.checksum,
                size_bytes=row.size_bytes,
                topic=topic,
                outcome=entry.outcome,
                published=row.doc_id in published,
            )


def _row(prepared: Prepared, datasource: Datasource) -> Row:
    key = upload_key(datasource.account_id, datasource.datasource_id, prepared.doc_id, prepared.checksum)
    return Row(
        account_id=datasource.account_id,
        datasource_id=datasource.datasource_id,
        doc_id=prepared.doc_id,
        object_key=key,
        checksum=prepared.checksum,
        size_bytes=prepared.size_bytes,
        mime_type=prepared.mime_type,
        title=prepared.title,
    )
