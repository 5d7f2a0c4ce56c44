"""Which blobs stored documents refer to: only the documents themselves say it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from pipestream.documents.blobs import blobs_of
from pipestream.retention.policies import OUTPUTS, UPLOADS
from pipestream.retention.references import References
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.objects.store import ObjectStore

_BATCH = 200


def read_documents(store: ObjectStore, prefix: str) -> Iterator[tuple[str, PipeDoc]]:
    """Yield the documents below a prefix with their keys; what is not a document is left out."""
    keys = store.list(prefix)
    while batch := list(islice(keys, _BATCH)):
        for key, data in zip(batch, store.get_many(batch), strict=True):
            if isinstance(data, bytes):
                try:
                    yield key, PipeDoc.FromString(data)
                except DecodeError:
                    continue


class BlobUse:
    """Tells whether a stored document refers to a blob.

    The versions of the blob's own document are read first. What nodes wrote for the account is read only if none of
    those refers to it, once per account: that is every output of the account.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._by_account: dict[str, References] = {}

    def __contains__(self, key: str) -> bool:
        _, account_id, datasource_id, doc_id, _ = key.split("/")
        own = References()
        _collect(self._store, f"{UPLOADS}/{account_id}/{datasource_id}/{doc_id}", own)
        if key in own:
            return True
        if account_id not in self._by_account:
            self._by_account[account_id] = References()
            for root in (OUTPUTS, UPLOADS):
                _collect(self._store, f"{root}/{account_id}", self._by_account[account_id])
        return key in self._by_account[account_id]


def _collect(store: ObjectStore, prefix: str, found: References) -> None:
    for _, document in read_documents(store, prefix):
        found.add_keys(blob.storage_ref.object_key for blob in blobs_of(document))
