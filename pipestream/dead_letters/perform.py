"""Replay, quarantine, release or purge dead letters: exactly once, and resumable under the action's id.

Per partition of a dead-letter topic, as a drain does it:

1. Start the partition's transactional producer. Its id is the same for every action, so that fences every earlier
   one, whatever its name, and aborts what it left open.
2. Only then read the decisions: nobody else can decide about these letters any more. Continue where the action's own
   batches end, and skip letters that any action has decided.
3. Per chunk: read, select, then in one transaction send the replayed records and the batch of decisions. A letter
   whose record Kafka refuses for its size stays open, and does not stop those behind it.

The transaction also commits how far the action has read as the offset of a consumer group of its own, so that
Kafka's tools show its progress. Nothing here reads it back.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipestream import faults
from pipestream.dead_letters.action import ActionReport, ActionRequest, decide, replay_record
from pipestream.dead_letters.decisions import (
    DECISIONS_TOPIC,
    ActionConflict,
    ActionPlan,
    Batch,
    Decisions,
    PlannedRange,
    PlannedTwice,
)
from pipestream.dead_letters.destinations import Destinations, NoWayBack
from pipestream.dead_letters.kafka import KafkaLetterBroker, LetterBroker
from pipestream.dead_letters.letter import State, read_letter
from pipestream.errors import RecordTooLarge
from pipestream.graph.model import Graph
from pipestream.kafka.records import InputRecord, OffsetRange, OutputRecord
from pipestream.kafka.writer import Progress
from pipestream.offsets.range_reader import Reader, Writer
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# A batch of scattered offsets takes up to 40 bytes a letter, and a broker takes records of 1 MB.
_MOST_CHUNK_RECORDS = 10_000


def run_action(
    request: ActionRequest, settings: Settings, graphs: Sequence[Graph] = (), *, broker: LetterBroker | None = None
) -> ActionReport:
    """Plan an action, or resume its plan, and carry it out.

    :param graphs: the graphs whose letters are replayed, to find the topics that they go back to.
    :param broker: the broker to use instead of the one in the settings; in tests, a model of one.
    :raises ActionConflict: the id was used for another action.
    :raises PlannedTwice: another process planned under the same id at the same moment, and came first.
    :raises ProducerFenced: another action has taken over a partition; this one may be repeated under its id.
    """
    broker = broker or KafkaLetterBroker(settings)
    broker.log.ensure()
    plan = _find_or_make_plan(request, broker, settings)
    return _carry_out(plan, broker, settings, graphs)


def resume_action(
    action_id: str, settings: Settings, graphs: Sequence[Graph] = (), *, broker: LetterBroker | None = None
) -> ActionReport:
    """Carry out what is left of an action that was planned before.

    :raises ActionConflict: no action has this id.
    """
    broker = broker or KafkaLetterBroker(settings)
    plan = broker.log.read().plans.get(action_id)
    if plan is None:
        raise ActionConflict(f"no action on dead letters has the id {action_id}; `pipestream dlq history` shows them")
    return _carry_out(plan, broker, settings, graphs)


def _find_or_make_plan(request: ActionRequest, broker: LetterBroker, settings: Settings) -> ActionPlan:
    # Not the settled state: it would wait for a transaction that a dead action left open, and that is only
    # aborted when its producer is fenced later. A plan that is missed here is found then.
    plan = broker.log.read().plans.get(request.action_id)
    if plan is None:
        plan = make_plan(request, settings, broker)
        broker.log.write_plan(plan)
    asked = (request.act, request.topics, request.selection, request.limit, request.max_replays)
    if asked != (plan.act, plan.topics, plan.selection, plan.limit, plan.max_replays):
        raise ActionConflict(
            f"{request.action_id} was planned at {plan.planned_at:%Y-%m-%d %H:%M:%S} as another {plan.act.value} "
            f"of {', '.join(plan.topics)}; take another id, or continue it: `pipestream dlq resume {request.action_id}`"
        )
    faults.reach(faults.PLAN_WRITTEN)
    return plan


def make_plan(request: ActionRequest, settings: Settings, broker: LetterBroker | None = None) -> ActionPlan:
    """Return the plan to act on the letters that are there now. It counts only once it is in the log.

    :raises TopicMissing: one of the topics is not there.
    """
    broker = broker or KafkaLetterBroker(settings)
    ranges = []
    for topic in request.topics:
        identity = broker.identify(topic)
        for partition, marks in sorted(broker.settled_watermarks(topic, identity.partitions).items()):
            if marks.low < marks.high:
                ranges.append(PlannedRange(topic, identity.topic_id, partition, marks.low, marks.high))
    return request.plan(ranges)


def _carry_out(plan: ActionPlan, broker: LetterBroker, settings: Settings, graphs: Sequence[Graph]) -> ActionReport:
    action = _Action(plan, broker, settings, Destinations(graphs, broker.topics()))
    for planned in broker.log.read().remaining(plan):
        action.run(planned)
    decided = broker.log.read_settled().decided_by(plan.action_id)
    return ActionReport(
        action_id=plan.action_id,
        act=plan.act,
        status="done" if action.had_work or not plan.ranges else "done before",
        decided=dict(decided),
        decided_now=action.decided,
        sent=dict(action.sent),
        left_open=dict(action.left_open),
    )


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What an action makes of the letters that it read together."""

    batch: Batch
    outputs: list[OutputRecord]
    replayed: list[int]
    """The offset of the letter that each output is made of."""
    left_open: Counter[str]
    """How many letters cannot be sent back, by reason."""


class _Action:
    """One try of an action."""

    def __init__(self, plan: ActionPlan, broker: LetterBroker, settings: Settings, destinations: Destinations) -> None:
        self.plan = plan
        self.settings = settings
        self.had_work = False
        self.decided = 0
        self.sent: Counter[str] = Counter()
        self.left_open: Counter[str] = Counter()
        self._broker = broker
        self._destinations = destinations

    def run(self, planned: PlannedRange) -> None:
        """Decide about the letters of one partition."""
        transactional_id = f"pipestream.dlq/{planned.topic}/{planned.partition}"
        with self._broker.start_writer([transactional_id], planned.topic) as writer:
            decisions = self._broker.log.read_settled()
            if decisions.plans[self.plan.action_id] != self.plan:
                raise PlannedTwice(self.plan.action_id)
            start = self._start(planned, decisions)
            if start >= planned.end:
                return
            self.had_work = True
            left = OffsetRange(planned.topic, planned.partition, start, planned.end)
            with self._broker.open_reader(f"pipestream.dlq.{self.plan.action_id}", [left]) as reader:
                size = min(self.settings.chunk_records, _MOST_CHUNK_RECORDS)
                budget = self._budget(decisions)
                for records, ends in reader.chunks({}, size):
                    end = ends[planned.topic, planned.partition]
                    batch = self._commit(records, end, planned, decisions, budget, writer, reader)
                    if batch.end >= planned.end:
                        return
                    budget = None if budget is None else budget - batch.count

    def _commit(
        self,
        records: Sequence[InputRecord],
        end: int,
        planned: PlannedRange,
        decisions: Decisions,
        budget: int | None,
        writer: Writer,
        reader: Reader,
    ) -> Batch:
        """Decide about the letters of a chunk and commit that; leave those open whose records Kafka refuses."""
        refused: dict[int, str] = {}
        while True:
            chunk = self._decide(records, end, planned, decisions, budget, refused)
            batch = chunk.batch
            # Progress alone is not worth a transaction.
            if batch.count or batch.end >= planned.end:
                progress = [Progress(planned.partition, batch.end)]
                try:
                    writer.commit([*chunk.outputs, _as_record(batch)], progress, reader.group_metadata())
                except RecordTooLarge as error:
                    if error.index >= len(chunk.outputs):  # the batch itself
                        raise
                    refused[chunk.replayed[error.index]] = _say_too_large(error)
                    continue
                self._count(chunk)
                faults.reach(faults.CHUNK_COMMITTED)
            self.left_open += chunk.left_open
            return batch

    def _start(self, planned: PlannedRange, decisions: Decisions) -> int:
        identity = self._broker.identify(planned.topic)
        if identity.topic_id != planned.topic_id:
            raise ActionConflict(
                f"{planned.topic} was deleted and created again since {self.plan.action_id} was planned, and its "
                f"letters with it; start another action"
            )
        # Retention may have deleted letters since; what is gone can be neither replayed nor purged.
        low = self._broker.watermarks(planned.topic, [planned.partition])[planned.partition].low
        done = decisions.progress.get((self.plan.action_id, planned.topic_id, planned.partition), planned.start)
        return max(planned.start, done, low)

    def _budget(self, decisions: Decisions) -> int | None:
        limit = self.plan.limit
        return None if limit is None else limit - decisions.decided_by(self.plan.action_id).total()

    def _decide(
        self,
        records: Sequence[InputRecord],
        end: int,
        planned: PlannedRange,
        decisions: Decisions,
        budget: int | None,
        refused: Mapping[int, str],
    ) -> _Chunk:
        """Decide about the letters of a chunk.

        :param refused: the offsets of letters that Kafka did not take back, and why.
        """
        known = decisions.of_partition(planned.topic_id, planned.partition)
        decided: dict[State, list[int]] = {}
        outputs: list[OutputRecord] = []
        left_open: Counter[str] = Counter()
        for record in records:
            if budget is not None and budget <= 0:
                break
            letter = read_letter(record, known.get(record.offset))
            state = decide(letter, self.plan)
            if state is None:
                continue
            if state is State.REPLAYED:
                try:
                    if record.offset in refused:
                        raise NoWayBack(refused[record.offset])
                    topic = self._destinations.find(letter)
                except NoWayBack as error:
                    left_open[str(error)] += 1
                    continue
                outputs.append(replay_record(letter, topic, self.plan.action_id))
            decided.setdefault(state, []).append(record.offset)
            budget = None if budget is None else budget - 1
        batch = Batch(
            action_id=self.plan.action_id,
            topic=planned.topic,
            topic_id=planned.topic_id,
            partition=planned.partition,
            # With the limit reached, this action leaves the rest of the range alone.
            end=planned.end if budget is not None and budget <= 0 else end,
            decided={state: tuple(offsets) for state, offsets in decided.items()},
            decided_at=datetime.now(UTC),
        )
        return _Chunk(batch, outputs, decided.get(State.REPLAYED, []), left_open)

    def _count(self, chunk: _Chunk) -> None:
        self.decided += chunk.batch.count
        self.sent.update(output.topic for output in chunk.outputs)
        log.info("%s: %d letters decided, %d sent back", self.plan.action_id, chunk.batch.count, len(chunk.outputs))


def _as_record(batch: Batch) -> OutputRecord:
    return OutputRecord(DECISIONS_TOPIC, batch.action_id.encode(), batch.encode())


def _say_too_large(error: RecordTooLarge) -> str:
    """Return why a letter stays open; the same for all letters of a topic, which are counted together."""
    return (
        f"the record is too large for {error.topic}, which takes up to {error.limit_bytes} bytes (compressed); "
        f"raise max.message.bytes of that topic, then replay again under another id"
    )
