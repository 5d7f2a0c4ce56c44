"""Move the heads of a topic by hand: the way out after retention deleted records, or a topic was made again.

It is recorded in the ledger, by whom and from where to where. Moving a head forward gives up the records in between;
moving it back drains them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pipestream.drain.broker import Broker
from pipestream.drain.model import consumer_group
from pipestream.errors import TerminalError
from pipestream.graph.hashing import graph_hash
from pipestream.graph.model import Graph
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.slots import acquire_any
from pipestream.leases.store import LeaseStore
from pipestream.ledger import Entry, EntryKind, Ledger
from pipestream.offsets.ranges import HeadMove
from pipestream.offsets.start import start_offsets
from pipestream.settings import Settings


def rebaseline(
    settings: Settings,
    graph: Graph,
    topic: str,
    to: str | Mapping[int, int],
    *,
    by: str,
    leases: LeaseStore,
) -> list[Entry]:
    """Set a topic's heads, under its lease, and return what was recorded.

    :param to: a place such as ``earliest``, ``latest``, a time or a duration; or an offset per partition.
    :raises LeaseUnavailable: a run is draining the topic.
    :raises TerminalError: an offset lies outside of what the topic holds.
    """
    lease = acquire_any(leases, topic, f"rebaseline by {by}", settings.lease_ttl_s)
    with LeaseKeeper(leases, lease) as keeper:
        broker, ledger, lane = Broker(settings), Ledger(settings), graph.graph_id
        identity = broker.identify(topic)
        watermarks = broker.watermarks(topic, identity.partitions)
        targets = to if isinstance(to, Mapping) else start_offsets(broker, topic, watermarks, to, watermarks)
        for partition, offset in targets.items():
            marks = watermarks.get(partition)
            if marks is None or not marks.low <= offset <= marks.high:
                held = f"it holds {marks.low}..{marks.high}" if marks else "there is no such partition"
                raise TerminalError(f"{topic}[{partition}] cannot start at {offset}: {held}")
        heads = ledger.heads(lane, topic, targets)
        now = datetime.now(UTC)
        moves = [
            Entry(
                lane=lane,
                range=HeadMove(topic, partition, heads.get(partition, 0), offset),
                topic_id=identity.topic_id,
                kind=EntryKind.REBASELINED,
                run_id=f"rebaseline by {by}",
                plan_id="",
                graph_id=graph.graph_id,
                graph_hash=graph_hash(graph),
                holder=lease.holder,
                token=lease.token,
                tally=None,
                seconds=0.0,
                entered_at=now,
            )
            for partition, offset in sorted(targets.items())
        ]
        keeper.check()
        # Kafka first: if we die in between, the old heads still hold, and the operator asks again.
        broker.commit(consumer_group(graph, lane), topic, targets)
        ledger.rebaseline(moves)
        return moves
