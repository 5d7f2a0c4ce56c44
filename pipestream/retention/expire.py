"""Delete documents that are older than their graph keeps them, and that no record in Kafka refers to.

1. Read what graphs say, and since when objects are known to be unreferenced.
2. Read every record of every topic that may refer to documents: those that wait, dead letters, and all others that a
   backfill could still read.
3. List the objects; those that are old enough and unreferenced are candidates.
4. Delete the candidates that an earlier scan found as well, at least the grace period ago. Of an upload, the row in the
   catalogue goes first.
5. Keep the list of the other candidates for the next time.

A crash after any step does no harm: what was deleted is not listed any more, and what was not is found again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pipestream.documents.catalogue import Catalogue
from pipestream.errors import RequestInvalid
from pipestream.kafka.broker import Broker
from pipestream.objects.store import open_store
from pipestream.retention.policies import find_policies, read_histories
from pipestream.retention.references import find_referring_topics, scan_references
from pipestream.retention.sweep import Expired, Sweep
from pipestream.retention.unreferenced import read_unreferenced

if TYPE_CHECKING:
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

DEFAULT_GRACE = timedelta(hours=24)
SHORTEST_GRACE = timedelta(hours=1)
"""Longer than a chunk of records, or a wave of sub-ranges, is at work, from its reading to its commit: minutes, and
``sub_range_wave_s`` is at most half of this. Where modules are so slow that a chunk takes hours (``chunk_records``
times their seconds), the operator has to give more."""


def expire_documents(
    settings: Settings, now: datetime, *, grace: timedelta = DEFAULT_GRACE, dry_run: bool = False
) -> Expired:
    """Delete what has expired, and return what was done. Safe to run next to everything else, and again after a crash.

    :param now: the present time, by which documents are old enough.
    :param grace: how long an object must have been unreferenced.
    :raises RequestInvalid: the grace period is too short to be safe.
    :raises BrokerRefused: a topic may not be read that could refer to documents; nothing was deleted.
    :raises StoreUnavailable, DatabaseUnavailable, BrokerUnavailable: repeat it; what was deleted had expired.
    """
    if grace < SHORTEST_GRACE:
        raise RequestInvalid(f"a grace period of {grace} is too short to be safe; give at least {SHORTEST_GRACE}")
    histories = read_histories(settings)
    policies = find_policies(histories)
    if not policies.roots():
        log.info("no graph says keep_documents_hours, so documents are kept forever")
        return Expired(is_dry_run=dry_run)
    with open_store(settings.store_uri, settings) as store, closing(Catalogue(settings)) as catalogue:
        broker = Broker(settings)
        topics = find_referring_topics(histories, broker, store, settings)
        # Before the scan: what the list says must be older.
        earlier = read_unreferenced(store)
        started = time.monotonic()
        references = scan_references(settings, topics)
        scanned_at = now + timedelta(seconds=time.monotonic() - started)
        known = earlier.as_of(scanned_at, _shortest_life(broker, topics))
        return Sweep(store, catalogue, policies, now, grace, dry_run=dry_run).run(references, known, scanned_at)


def _shortest_life(broker: Broker, topics: Iterable[str]) -> timedelta | None:
    """Return how long topics keep their records at least; None if all of them do forever."""
    lives = [config.retention_ms for config in broker.configs(topics).values() if config.retention_ms >= 0]
    return timedelta(milliseconds=min(lives)) if lives else None
