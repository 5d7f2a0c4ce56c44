"""One pass over the stored objects: which are candidates, which of them go now, which are kept on the list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

from pipestream.objects.store import ObjectStore, StoredObject
from pipestream.retention.blob_use import BlobUse
from pipestream.retention.policies import BLOBS, UPLOADS, Policies
from pipestream.retention.references import References
from pipestream.retention.unreferenced import Unreferenced, write_unreferenced

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Expired:
    """What was found and done."""

    records: int = 0
    """Records in Kafka that were looked at."""
    objects: int = 0
    """Objects that were looked at."""
    unreferenced: int = 0
    """Objects that are old enough and unreferenced, but not yet for as long as the grace period."""
    deleted: int = 0
    """Objects that were deleted; in a dry run, those that would have been."""
    deleted_bytes: int = 0
    is_dry_run: bool = False


class Forgetting(Protocol):
    """What a sweep needs of the catalogue."""

    def note_deletions(self, documents: Iterable[tuple[str, str, str]]) -> None: ...

    def forget(self, account_id: str, datasource_id: str, doc_id: str, object_key: str) -> bool: ...


class Sweep:
    """One pass over the objects."""

    def __init__(
        self,
        store: ObjectStore,
        catalogue: Forgetting,
        policies: Policies,
        now: datetime,
        grace: timedelta,
        *,
        dry_run: bool = False,
    ) -> None:
        """
        :param now: a time before the scan of references began.
        :param grace: how long an object must have been unreferenced.
        """
        self._store = store
        self._catalogue = catalogue
        self._policies = policies
        self._now = now
        self._marked_before = now - grace
        self._dry_run = dry_run
        self._objects = 0
        self._blob_use = BlobUse(store)

    def run(self, references: References, earlier: Mapping[str, datetime], scanned_at: datetime) -> Expired:
        """Delete what is due, keep the list of the rest, and return what was done.

        :param earlier: since when objects are known to be unreferenced.
        :param scanned_at: when the scan that found the references ended.
        """
        unreferenced: dict[str, datetime] = {}
        deleted = deleted_bytes = 0
        candidates = self._candidates(references)
        while batch := list(islice(candidates, _BATCH)):
            since = {each.key: _since(each, earlier, scanned_at) for each in batch}
            gone = self._delete([each for each in batch if since[each.key] <= self._marked_before])
            deleted += len(gone)
            deleted_bytes += sum(each.size_bytes for each in gone)
            keys = {each.key for each in gone}
            unreferenced |= {key: at for key, at in since.items() if key not in keys}
        if not self._dry_run:
            write_unreferenced(self._store, Unreferenced(self._now, unreferenced))
        return Expired(references.records, self._objects, len(unreferenced), deleted, deleted_bytes, self._dry_run)

    def _candidates(self, references: References) -> Iterator[StoredObject]:
        for root in self._policies.roots():
            for each in self._store.describe(root):
                self._objects += 1
                keep = self._policies.keep(each.key)
                if keep is None or each.modified_at >= self._now - keep or each.key in references:
                    continue
                if root != BLOBS or each.key not in self._blob_use:
                    yield each

    def _delete(self, due: list[StoredObject]) -> Sequence[StoredObject]:
        if self._dry_run:
            return due
        self._catalogue.note_deletions(filter(None, map(_document_of, due)))
        # The row goes first: it could be published again. What was uploaded again since keeps its row.
        free = [each for each in due if not each.key.startswith(f"{UPLOADS}/") or self._forget(each)]
        return self._store.delete_unchanged(free)

    def _forget(self, upload: StoredObject) -> bool:
        """Remove an upload's row from the catalogue, unless its reference is still to be published."""
        if not self._store.is_unchanged(upload):
            return False
        document = _document_of(upload)
        assert document is not None
        return self._catalogue.forget(*document, upload.key)


def _document_of(stored: StoredObject) -> tuple[str, str, str] | None:
    """Return the account, the datasource and the id of the document that an upload or a blob belongs to."""
    root, *parts = stored.key.split("/")
    if root not in (UPLOADS, BLOBS):
        return None
    account_id, datasource_id, doc_id, _ = parts
    return account_id, datasource_id, doc_id


def _since(candidate: StoredObject, earlier: Mapping[str, datetime], scanned_at: datetime) -> datetime:
    """Return since when an object is known to be unreferenced: since now, if it was written again meanwhile."""
    listed = earlier.get(candidate.key)
    return scanned_at if listed is None or listed <= candidate.modified_at else listed
