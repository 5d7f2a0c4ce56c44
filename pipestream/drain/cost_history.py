"""What a topic's documents cost so far: read from the ledger once for all slots of a run."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pipestream.drain.plan_tasks import COST_COLUMNS, seconds_per_document
from pipestream.ledger import Ledger

if TYPE_CHECKING:
    import pyarrow as pa

# What a document cost longer ago says little, and reading all of the history would take longer with every run.
_TELLING_TIME = timedelta(days=7)


class CostHistory:
    """The cost of a document of one topic. The slots of a run ask it from several threads.

    A week of a topic that streams is some 100,000 entries per partition, so they are read once, and of their columns
    only those that tell the cost.
    """

    def __init__(self, ledger: Ledger, lane: str, topic: str) -> None:
        """
        :param lane: of the live runs. They are the ones with a history, and a document costs the same in a backfill.
        """
        self._ledger = ledger
        self._lane = lane
        self._topic = topic
        self._guard = threading.Lock()
        self._entries: pa.Table | None = None

    def seconds_per_document(self, graph_hash: str) -> float | None:
        """Return what a document cost one task lately; None if no run was long enough to tell."""
        with self._guard:
            if self._entries is None:
                since = datetime.now(UTC) - _TELLING_TIME
                self._entries = self._ledger.entries_table(
                    COST_COLUMNS, lane=self._lane, topic=self._topic, since=since
                )
        return seconds_per_document(self._entries, graph_hash)
