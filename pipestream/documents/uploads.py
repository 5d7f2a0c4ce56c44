"""Take documents in: store their objects, then record them and their references in one transaction.

What is recorded here is published by a relay, in this process or in another.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipestream import faults
from pipestream.documents.catalogue import Catalogue, Row
from pipestream.documents.publish import announce
from pipestream.documents.references import upload_key
from pipestream.objects.store import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.documents.catalogue import Catalogued, Recorded
    from pipestream.documents.identity import Prepared
    from pipestream.documents.outbox import Announcement
    from pipestream.documents.tables import Tables
    from pipestream.graph.model import Datasource
    from pipestream.settings import Settings


class Uploads:
    """Takes documents in. Safe to use from several threads."""

    def __init__(self, settings: Settings, tables: Tables) -> None:
        self.store = open_store(settings.store_uri, settings)
        self.catalogue = Catalogue(settings, tables)

    def close(self) -> None:
        """End the store's threads. The tables belong to the caller."""
        self.store.close()

    def record(
        self,
        documents: Sequence[Prepared],
        datasource: Datasource,
        *,
        force: bool = False,
        is_announced: bool = True,
    ) -> Sequence[Recorded]:
        """Store and record documents, none of them twice; return what became of each, in their order.

        When it returns, they are durable, and the references to what is new are published sooner or later.

        :param force: publish also what is unchanged and published already.
        :param is_announced: False for documents that are only kept, and never published.
        :raises StoreUnavailable, DatabaseUnavailable: repeat it.
        """
        self.put(documents, datasource)
        return self.enter(documents, datasource, force=force, is_announced=is_announced)

    def put(self, documents: Sequence[Prepared], datasource: Datasource) -> None:
        """Store the objects of documents, the first step of ``record``.

        :raises StoreUnavailable: repeat it.
        """
        # Blobs first: a document must not refer to what is not there.
        self.store.put_many([blob for each in documents for blob in each.blobs])
        self.store.put_many([(_key(each, datasource), each.data) for each in documents])
        faults.reach(faults.UPLOAD_STORED)

    def enter(
        self, documents: Sequence[Prepared], datasource: Datasource, *, force: bool = False, is_announced: bool = True
    ) -> Sequence[Recorded]:
        """Record documents whose objects are stored, the second step of ``record``.

        :raises StoreUnavailable, DatabaseUnavailable: repeat both steps.
        """
        rows = [_row(each, datasource) for each in documents]
        traces = {each.doc_id: each.traceparent for each in documents}

        def make(row: Catalogued) -> Announcement:
            return announce(row, datasource, traces[row.doc_id])

        recorded = self.catalogue.record(rows, make if is_announced else None, force=force)
        faults.reach(faults.UPLOAD_RECORDED)
        self._put_again(rows, documents)
        return recorded

    def _put_again(self, rows: Sequence[Row], documents: Sequence[Prepared]) -> None:
        """Store what a deletion of an earlier version took with it, between the first put and the record."""
        deleted = self.catalogue.deleted_lately(rows)
        objects = {
            key: (row, data)
            for row, each in zip(rows, documents, strict=True)
            if row.key in deleted
            for key, data in (*each.blobs, (row.object_key, each.data))
        }
        for key in self.store.missing(list(objects)):
            row, data = objects[key]
            found = self.catalogue.find(*row.key)
            if found is not None and found.object_key == row.object_key:  # else this upload was deleted itself
                self.store.put(key, data)

    def announce_pending(self, datasource: Datasource) -> int:
        """Put references into the outbox to documents that a version without an outbox recorded; return how many."""
        return self.catalogue.announce_pending(
            datasource.account_id, datasource.datasource_id, partial(announce, datasource=datasource)
        )


def _key(prepared: Prepared, datasource: Datasource) -> str:
    return upload_key(datasource.account_id, datasource.datasource_id, prepared.doc_id, prepared.checksum)


def _row(prepared: Prepared, datasource: Datasource) -> Row:
    return Row(
        account_id=datasource.account_id,
        datasource_id=datasource.datasource_id,
        doc_id=prepared.doc_id,
        object_key=_key(prepared, datasource),
        checksum=prepared.checksum,
        size_bytes=prepared.size_bytes,
        mime_type=prepared.mime_type,
        title=prepared.title,
        connector_id=prepared.connector_id,
        document_type=prepared.document_type,
        metadata=prepared.metadata,
    )
