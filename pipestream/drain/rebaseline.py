"""Move the heads of a topic by hand: the way out after retention deleted records, or a topic was made again.

It is recorded in the ledger, by whom and from where to where. Moving a head forward gives up the records in between;
moving it back drains them again.

1. Take the leases of all slots: no run begins meanwhile.
2. Fence every producer of the topic: a run that lost its lease and does not know cannot commit any more. Its commit
   would put the offsets back where it thinks that they belong.
3. Only then look where everything stands, and move Kafka's offsets and the ledger's heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pipestream.drain.live_lane import LiveLane
from pipestream.drain.range_task import ordered_transactional_id, transactional_id
from pipestream.errors import LeaseUnavailable, TerminalError, TopicReplaced
from pipestream.graph.flow import check_drained
from pipestream.graph.model import Graph
from pipestream.graph.proto import graph_hash
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.kafka.records import Watermarks
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.names import leased_topic
from pipestream.leases.store import Lease, LeaseStore
from pipestream.ledger import Entry, EntryKind, Ledger
from pipestream.ledger.entries import HeadMove
from pipestream.offsets.start import start_offsets
from pipestream.settings import Settings
from pipestream.wording import counted


class HeadsMoved(TerminalError):
    """The heads are no longer where they were when somebody decided where to move them."""

    def __init__(self, topic: str, partition: int, expected: int, found: int) -> None:
        self.topic = topic
        self.partition = partition
        super().__init__(
            f"{topic}[{partition}]: the head was at {expected} and is now at {found}, so moving it would give up or "
            f"repeat other records than were approved; look again, and ask again"
        )


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """Where a head is, and where it is to be moved."""

    partition: int
    start: int
    end: int
    is_there: bool = True
    """False for a partition that only the topic before this one had."""

    def describe(self) -> str:
        if self.end == self.start:
            return "stays"
        offsets = counted(abs(self.end - self.start), "offset")
        return f"gives up {offsets}" if self.end > self.start else f"drains {offsets} again"


@dataclass(frozen=True, slots=True)
class PlannedMoves:
    """What a rebaseline would do."""

    topic_id: str
    moves: tuple[PlannedMove, ...]
    is_new_topic: bool = False
    """Whether the topic was deleted and made again. Then also a head that stays where it is has to be recorded: its
    number is an offset of the old topic, and runs refuse to drain from it."""

    @property
    def changed(self) -> tuple[PlannedMove, ...]:
        """Return those that a rebaseline changes."""
        return tuple(move for move in self.moves if self.is_new_topic or move.start != move.end)


def preview_rebaseline(settings: Settings, graph: Graph, topic: str, to: str | Mapping[int, int]) -> PlannedMoves:
    """Return what ``rebaseline`` would do now. Nothing is changed, and no lease is taken.

    :raises RequestInvalid: the graph does not drain the topic.
    :raises TerminalError: as for :func:`rebaseline`.
    """
    check_drained(graph, topic)
    broker, ledger, lane = Broker(settings), Ledger(settings), LiveLane.of(graph).name
    identity = broker.identify(topic)
    targets, moves = _find_moves(broker, ledger, lane, topic, identity, to)
    heads = ledger.heads(lane, topic, moves)
    planned = [PlannedMove(p, heads.get(p, 0), end, is_there=p in targets) for p, end in sorted(moves.items())]
    is_new_topic = not ledger.is_same_topic(lane, topic, identity.topic_id)
    return PlannedMoves(identity.topic_id, tuple(planned), is_new_topic)


def rebaseline(
    settings: Settings,
    graph: Graph,
    topic: str,
    to: str | Mapping[int, int],
    *,
    by: str,
    leases: LeaseStore,
    expected: PlannedMoves | None = None,
) -> list[Entry]:
    """Set a topic's heads, under the leases of all its slots, and return what was recorded.

    :param to: a place such as ``earliest``, ``latest``, a time or a duration; or an offset per partition.
    :param expected: what :func:`preview_rebaseline` found, if somebody decided by it. A head that is already where it
        is to be moved is accepted too: an earlier try may have moved it.
    :raises HeadsMoved: a head is not where it is expected; nothing was changed.
    :raises TopicReplaced: the topic was made again since the preview; nothing was changed.
    :raises LeaseUnavailable: a run is draining the topic; the error names it.
    :raises RequestInvalid: the graph does not drain the topic.
    :raises TerminalError: an offset lies outside of what the topic holds, or the topic was made again and a
        partition is left out.
    :raises LedgerBusy: a head moved nevertheless; ask again.
    """
    check_drained(graph, topic)
    live = LiveLane.of(graph)
    lane, group = live.name, live.group
    with _all_slots(settings, live.lease_name(topic), f"rebaseline by {by}", leases) as (lease, check_leases):
        broker, ledger = Broker(settings), Ledger(settings)
        identity = broker.identify(topic)
        broker.fence(topic, [transactional_id(group, topic, partition) for partition in identity.partitions])
        broker.fence(topic, [ordered_transactional_id(group, topic)])
        targets, moves = _find_moves(broker, ledger, lane, topic, identity, to)
        heads = ledger.heads(lane, topic, moves)
        if expected is not None:
            _check_expected(topic, identity, heads, moves, expected)
        entries = _entries(graph, topic, identity, heads, moves, lease, by)
        check_leases()
        # The next run treats what lies between a head and a higher offset as drained. So that this never affects what
        # the operator gives up or wants again, an offset is lowered before its head moves and raised after it. If we
        # die in between, runs refuse to drain from a head that is higher than its offset, and the operator asks again.
        committed = broker.committed(group, topic, targets)
        back = {p: to for p, to in targets.items() if p in committed and committed[p].offset > to}
        if back:
            broker.commit(group, topic, back)
        ledger.rebaseline(entries)
        broker.commit(group, topic, targets)
        return entries


@contextmanager
def _all_slots(
    settings: Settings, name: str, holder: str, leases: LeaseStore
) -> Iterator[tuple[Lease, Callable[[], None]]]:
    """Hold every slot of a topic in a lane; give the lease of the first, and a check that nobody else holds any."""
    with ExitStack() as stack:
        keepers: list[LeaseKeeper] = []

        def check() -> None:
            for keeper in keepers:
                keeper.check()
            # After scaling down a run may hold a slot beyond the replicas, after scaling up a new one.
            for found in leases.assignments(name):
                if found.holder and found.slot >= len(keepers):
                    raise LeaseUnavailable(name, found.slot, found.holder)

        for slot in range(leases.desired(leased_topic(name)).replicas):
            lease = leases.acquire(name, slot, holder, settings.lease_ttl_s)
            keepers.append(stack.enter_context(LeaseKeeper(leases, lease)))
        check()
        yield keepers[0].lease, check


def _find_moves(
    broker: Broker, ledger: Ledger, lane: str, topic: str, identity: TopicIdentity, to: str | Mapping[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the new offset of each partition that the topic has, and the new head of each that the ledger knows."""
    watermarks = broker.settled_watermarks(topic, identity.partitions)
    targets = dict(to) if isinstance(to, Mapping) else start_offsets(broker, topic, watermarks, to)
    _check_targets(topic, targets, watermarks)
    moves = dict(targets)
    if not ledger.is_same_topic(lane, topic, identity.topic_id):
        moves |= _moves_of_new_topic(ledger, lane, topic, identity, targets)
    return targets, moves


def _check_expected(
    topic: str, identity: TopicIdentity, heads: Mapping[int, int], moves: Mapping[int, int], expected: PlannedMoves
) -> None:
    if identity.topic_id != expected.topic_id:
        raise TopicReplaced(topic, "look again where its heads should be, and ask again")
    for each in expected.moves:
        if (found := heads.get(each.partition, 0)) not in (each.start, moves.get(each.partition)):
            raise HeadsMoved(topic, each.partition, each.start, found)


def _check_targets(topic: str, targets: Mapping[int, int], watermarks: Mapping[int, Watermarks]) -> None:
    for partition, offset in targets.items():
        marks = watermarks.get(partition)
        if marks is None or not marks.low <= offset <= marks.high:
            held = f"it holds {marks.low}..{marks.high}" if marks else "there is no such partition"
            raise TerminalError(f"{topic}[{partition}] cannot start at {offset}: {held}")


def _moves_of_new_topic(
    ledger: Ledger, lane: str, topic: str, identity: TopicIdentity, targets: Mapping[int, int]
) -> dict[int, int]:
    """Return where the heads go of partitions that the topic had before it was made again, and has no more.

    To the beginning, in case they are added to the new topic later: the old head would skip their records.

    :raises TerminalError: a partition is left out, whose head would then mean the old topic's offsets.
    """
    missing = sorted(set(identity.partitions) - set(targets))
    if missing:
        raise TerminalError(
            f"{topic} was deleted and made again, so every partition needs a new head, and "
            f"{', '.join(map(str, missing))} would keep that of the old topic; give an offset for each of "
            f"{', '.join(map(str, identity.partitions))}, or one place for all, such as earliest"
        )
    had = {partition for _, _, partition in ledger.partitions(lane=lane, topic=topic)}
    return dict.fromkeys(sorted(had - set(identity.partitions)), 0)


def _entries(
    graph: Graph,
    topic: str,
    identity: TopicIdentity,
    heads: Mapping[int, int],
    moves: Mapping[int, int],
    lease: Lease,
    by: str,
) -> list[Entry]:
    now = datetime.now(UTC)
    return [
        Entry(
            lane=graph.graph_id,
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
        for partition, offset in sorted(moves.items())
    ]
