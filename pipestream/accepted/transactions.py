"""What a slot asks of Kafka: its producer, its partition of the log, and which outputs can be written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from pipestream import faults
from pipestream.accepted.queue import Pending
from pipestream.accepted.record import Accepted, encode_accepted
from pipestream.accepted.topic import ensure_topic, read_accepted
from pipestream.errors import PipestreamError, RecordTooLarge, TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OutputRecord
from pipestream.kafka.writer import TransactionalWriter
from pipestream.settings import Settings
from pipestream.telemetry.metrics import SEND_DURATION

# Kafka takes nothing for the next transaction of an id before the markers of its last one are written; the client then
# waits 20 ms and asks again. With two ids in turn, the markers of the one are written during the transaction of the
# other.
_IDS = 2
# An open transaction of a dead engine holds back the readers of every topic it wrote to. One that lives commits within
# a second.
_TRANSACTION_TIMEOUT_S = 10.0
# A transaction's records are there all at once, and waiting for more of them only adds to its time: without it, one of
# 16 records took 4.7 instead of 5.3 ms and a quarter less CPU, with as many requests.
_LINGER_MS = 0


class Transactions:
    """The transactional ids of a slot, and its partition of the log. Used by one thread at a time.

    The ids are used in turn, one transaction after the other. Whoever takes the slot over fences all of them before it
    reads the log.
    """

    def __init__(self, settings: Settings, topic: str, slot: int, slots: int) -> None:
        self._settings = settings
        self._topic = topic
        self._slot = slot
        self._slots = slots
        self._writers: deque[TransactionalWriter] = deque()
        self._broker = Broker(settings)
        self._known_topics: frozenset[str] = frozenset()
        self._timing = SEND_DURATION.labels(topic)

    def prepare(self) -> None:
        """Make or check the topic, then fence whoever had the slot and settle what it left open."""
        ensure_topic(self._settings, self._topic, self._slots)
        self.restart()

    def restart(self) -> None:
        """Fence every earlier producer of the slot, the own ones among them."""
        self.close()
        with ThreadPoolExecutor(_IDS) as pool:
            starting = [pool.submit(self._start_writer, each) for each in transactional_ids(self._topic, self._slot)]
        # Those that started are closed with the next try, where one did not.
        self._writers.extend(each.result() for each in starting if each.exception() is None)
        for each in starting:
            each.result()
        self._known_topics = frozenset()
        faults.reach(faults.SLOT_FENCED)

    def read(self) -> Iterator[Accepted]:
        """Yield what the slot has accepted within the window."""
        yield from read_accepted(self._settings, self._topic, self._slot)
        faults.reach(faults.SLOT_READ)

    def commit(
        self, calls: Sequence[Pending], accepted: Sequence[Accepted], time_ms: int
    ) -> tuple[Pending, RecordTooLarge] | None:
        """Write the outputs of calls and one record of their keys, all or nothing.

        :returns: the call whose output Kafka refuses for its size, and which of its outputs that is; then nothing was
            written.
        """
        writer = self._writers[0]
        self._writers.rotate()
        outputs = [output for call in calls for output in call.submission.outputs]
        of_calls = len(outputs)
        outputs += [
            OutputRecord(self._topic, None, value, partition=self._slot) for value in encode_accepted(accepted, time_ms)
        ]
        try:
            with self._timing.time():
                writer.commit(outputs)
        except RecordTooLarge as error:
            if error.index >= of_calls:  # our own record, which is small: the topic's limit was changed
                raise
            call, index = _owner(calls, error.index)
            return call, RecordTooLarge(error.drained, error.topic, error.size_bytes, error.limit_bytes, index)
        return None

    def find_unwritable(self, calls: Sequence[Pending]) -> list[tuple[Pending, PipestreamError]]:
        """Return the calls with an output to a topic that does not exist: waiting for it would hold up the others."""
        if all(output.topic in self._known_topics for call in calls for output in call.submission.outputs):
            return []
        self._known_topics = frozenset(self._broker.existing())
        refused: list[tuple[Pending, PipestreamError]] = []
        for call in calls:
            missing = [output.topic for output in call.submission.outputs if output.topic not in self._known_topics]
            if missing:
                refused.append((call, TopicMissing(missing[0])))
        return refused

    def close(self) -> None:
        """Give the producers back."""
        while self._writers:
            self._writers.pop().close()

    def _start_writer(self, transactional_id: str) -> TransactionalWriter:
        return TransactionalWriter(
            self._settings, [transactional_id], self._topic, _TRANSACTION_TIMEOUT_S, linger_ms=_LINGER_MS
        )


def _owner(calls: Sequence[Pending], index: int) -> tuple[Pending, int]:
    """Return the call that an output belongs to, and which of its outputs that is."""
    for call in calls:
        if index < len(call.submission.outputs):
            return call, index
        index -= len(call.submission.outputs)
    raise IndexError("the calls have fewer outputs")


def transactional_ids(topic: str, slot: int) -> list[str]:
    """Return the ids under which a slot writes: ``TOPIC/SLOT``, ``TOPIC/SLOT/1`` and so on."""
    return [f"{topic}/{slot}" + (f"/{number}" if number else "") for number in range(_IDS)]
