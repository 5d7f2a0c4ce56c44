"""The list of objects that no record referred to when somebody last looked, kept in the object store itself.

An object is deleted only if scans found nothing that refers to it for as long as the grace period. So what a run, a
replay or a backfill has in memory while a scan is made, and whose record Kafka deletes meanwhile, still keeps its
object. Between two scans no record may come and go unseen, so they must not be further apart than topics keep records.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipestream.errors import DocumentMissing
from pipestream.objects.store import ObjectStore

log = logging.getLogger(__name__)

KEY = "retention/unreferenced.json.gz"


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """What the scans so far found."""

    started_at: datetime | None = None
    """When the last of them began."""
    since: Mapping[str, datetime] = field(default_factory=dict)
    """By key: the end of the first scan since which nothing was seen that refers to the object."""

    def as_of(self, scanned_at: datetime, shortest_life: timedelta | None) -> Mapping[str, datetime]:
        """Return since when objects are unreferenced, if another scan has ended now.

        :param shortest_life: how long the topics keep records at least; None: forever.
        """
        if self.started_at is None or shortest_life is None or scanned_at - self.started_at <= shortest_life:
            return self.since
        log.warning(
            "the last scan began at %s, and a topic keeps records for only %s: some may have been "
            "written and deleted unseen. The grace period starts again; look for expired documents more often, or "
            "raise retention_hours",
            self.started_at,
            shortest_life,
        )
        return {}


def read_unreferenced(store: ObjectStore) -> Unreferenced:
    """Return the list; one that cannot be read starts empty."""
    try:
        data = store.get(KEY)
    except DocumentMissing:
        return Unreferenced()
    try:
        values = json.loads(gzip.decompress(data))
        since = {key: datetime.fromisoformat(at) for at, keys in values["since"].items() for key in keys}
        return Unreferenced(datetime.fromisoformat(values["started_at"]), since)
    except (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError) as error:
        log.warning("%s cannot be read (%s); it starts empty, so documents stay for longer", KEY, error)
        return Unreferenced()


def write_unreferenced(store: ObjectStore, found: Unreferenced) -> None:
    """Keep the list."""
    assert found.started_at is not None
    since: dict[str, list[str]] = {}
    for key, at in sorted(found.since.items()):
        since.setdefault(at.isoformat(), []).append(key)
    values = {"started_at": found.started_at.isoformat(), "since": since}
    store.put(KEY, gzip.compress(json.dumps(values).encode(), mtime=0))
