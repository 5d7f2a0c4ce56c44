"""Wait for what Kafka does after its answer: a commit returns before the transaction's markers are in its partitions.

Until then a committed reader sees neither the records nor what lies behind them, and comes to the end too soon.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from pipestream.errors import TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.settings import Settings

# The broker aborts what a dead producer left open after a minute, and looks for it every ten seconds.
_LIMIT_S = 120.0
_POLL_S = 0.02


def wait_until_settled(settings: Settings, topics: Collection[str]) -> None:
    """Wait until every transaction that is in topics now has ended and shows. A topic that is not there has none."""
    broker = Broker(settings)
    for topic in topics:
        try:
            partitions = broker.identify(topic).partitions
        except TopicMissing:
            continue
        written = broker.written_ends(topic, partitions)
        deadline = time.monotonic() + _LIMIT_S
        while any(mark.high < written[p] for p, mark in broker.watermarks(topic, partitions).items()):
            assert time.monotonic() < deadline, f"a transaction stays open in {topic}"
            time.sleep(_POLL_S)
