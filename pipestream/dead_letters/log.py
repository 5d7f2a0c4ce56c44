"""The topic of decisions, read and written."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pipestream.dead_letters.decisions import DECISIONS_TOPIC, ActionPlan, Decisions, add_up
from pipestream.errors import BrokerUnavailable, TopicMissing
from pipestream.kafka.records import InputRecord, OffsetRange, Watermarks
from pipestream.offsets.range_reader import RangeReader
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import KEEP_FOREVER_MS, Purpose, TopicSpec

READER_GROUP = "pipestream.dlq"
"""The group under which dead letters and decisions are read; it never commits."""

_CHUNK_RECORDS = 1_000
_PAUSE_S = 0.1
# The broker aborts what a dead action left open after a minute, and looks for such transactions every ten seconds.
_OPEN_TRANSACTION_S = 90.0


class DecisionLog:
    """The one place where decisions about dead letters are kept."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._broker = TopicAdmin(settings)

    def ensure(self) -> None:
        """Create the topic if it is not there."""
        self._broker.create([TopicSpec(DECISIONS_TOPIC, 1, KEEP_FOREVER_MS, Purpose.DEAD_LETTERS)])

    def read(self) -> Decisions:
        """Return the decisions. An open transaction may hold back the newest ones."""
        try:
            self._broker.identify(DECISIONS_TOPIC)
        except TopicMissing:
            return Decisions()  # nobody has decided anything yet
        return add_up(self._records(self._broker.watermarks(DECISIONS_TOPIC, [0])[0]))

    def read_settled(self) -> Decisions:
        """Return all decisions, after waiting for transactions that are still open.

        A process that has fenced the earlier actions on a partition, and then reads this, knows every decision about
        that partition's letters. The last stable offset alone is not enough: another topic's open transaction holds
        it back, and with it decisions that are committed.

        :raises BrokerUnavailable: a transaction stayed open for longer than the broker allows.
        """
        end = self._broker.written_ends(DECISIONS_TOPIC, [0])[0]
        deadline = time.monotonic() + _OPEN_TRANSACTION_S
        while (marks := self._broker.watermarks(DECISIONS_TOPIC, [0])[0]).high < end:
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"{DECISIONS_TOPIC}: a transaction is still open at offset {marks.high}")
            time.sleep(_PAUSE_S)
        return add_up(self._records(marks))

    def write_plan(self, plan: ActionPlan) -> None:
        """Write a plan. Two that are written under one id at the same time do no harm: the first one counts."""
        self._broker.write(DECISIONS_TOPIC, plan.action_id.encode(), plan.encode())

    def _records(self, marks: Watermarks) -> Iterator[InputRecord]:
        return read_records(self._settings, DECISIONS_TOPIC, 0, marks)


def read_records(settings: Settings, topic: str, partition: int, marks: Watermarks) -> Iterator[InputRecord]:
    """Yield the committed records that a partition holds between two watermarks."""
    if marks.low >= marks.high:
        return
    with RangeReader(settings, READER_GROUP, [OffsetRange(topic, partition, marks.low, marks.high)]) as reader:
        for records, _ in reader.chunks({}, _CHUNK_RECORDS):
            yield from records
