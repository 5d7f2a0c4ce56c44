"""Which blobs stored documents refer to: only the documents themselves say it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from pipestream.documents.blobs import blobs_of
from pipestream.documents.segments import read_segment
from pipestream.errors import SegmentDamaged
from pipestream.retention.policies import OUTPUTS, SEGMENTS, UPLOADS
from pipestream.retention.references import References
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.objects.store import ObjectStore

log = logging.getLogger(__name__)

_BATCH = 200
# A segment has megabytes.
_SEGMENTS_BATCH = 8


def read_documents(store: ObjectStore, prefix: str) -> Iterator[tuple[str, PipeDoc]]:
    """Yield the documents below a prefix with their keys; what is not a document is left out.

    The key of a document in a segment is that of the segment.

    :raises SegmentDamaged: nobody knows which documents are in a segment.
    """
    keys = store.list(prefix)
    is_segments = prefix.startswith(f"{SEGMENTS}/")
    while batch := list(islice(keys, _SEGMENTS_BATCH if is_segments else _BATCH)):
        for key, data in zip(batch, store.get_many(batch), strict=True):
            if isinstance(data, bytes):
                for document in read_segment(key, data) if is_segments else (data,):
                    try:
                        yield key, PipeDoc.FromString(document)
                    except DecodeError:
                        continue


class BlobUse:
    """Tells whether a stored document refers to a blob.

    The versions of the blob's own document are read first. What nodes wrote for the account is read only if none of
    those refers to it, once per account: that is every output of the account. If a segment is among them that cannot be
    read, all blobs of the account count as referred to.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._by_account: dict[str, References | None] = {}
        """None: a segment of the account is damaged, so nobody knows."""

    def __contains__(self, key: str) -> bool:
        _, account_id, datasource_id, doc_id, _ = key.split("/")
        own = References()
        _collect(self._store, f"{UPLOADS}/{account_id}/{datasource_id}/{doc_id}", own)
        if key in own:
            return True
        if account_id not in self._by_account:
            self._by_account[account_id] = self._read_account(account_id)
        found = self._by_account[account_id]
        return found is None or key in found

    def _read_account(self, account_id: str) -> References | None:
        found = References()
        try:
            for root in (OUTPUTS, SEGMENTS, UPLOADS):
                _collect(self._store, f"{root}/{account_id}", found)
        except SegmentDamaged as error:
            # Raised, it would end every sweep before the damaged segment itself can expire.
            log.warning("all blobs of account %s stay: %s", account_id, error)
            return None
        return found


def _collect(store: ObjectStore, prefix: str, found: References) -> None:
    for _, document in read_documents(store, prefix):
        found.add_keys(blob.storage_ref.object_key for blob in blobs_of(document))
