"""Send a chunk's outputs and its offsets in one Kafka transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from pipestream import faults
from pipestream.drain.broker import explain_errors, transactional_producer
from pipestream.drain.records import OutputRecord
from pipestream.errors import BrokerUnavailable, LeaseLost, PipestreamError, RecordTooLarge
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# A call that is this much later than its own timeout will not come back.
_GRACE_S = 5.0
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a partition goes on after a transaction, and the note that is kept with it."""

    partition: int
    offset: int
    note: str = ""


class TransactionalWriter:
    """The one producer that may write for its partitions: starting it fences every earlier one."""

    def __init__(self, settings: Settings, transactional_ids: Sequence[str], topic: str) -> None:
        """Fence whoever writes under any of the ids, then write under the first."""
        self._settings = settings
        self._topic = topic
        self._hangs = False
        for other in transactional_ids[1:]:
            _start(settings, other, topic).close()
        self._producer = _start(settings, transactional_ids[0], topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._hangs:
            return  # closing would wait for the call that hangs
        try:
            self._producer.close()
        except KafkaException as error:
            # A fenced producer fails here once more, and would hide the LeaseLost that commit has raised.
            log.warning("%s: closing the producer: %s", self._topic, error)

    def commit(self, outputs: Sequence[OutputRecord], progress: Iterable[Progress], group_metadata: Any) -> None:
        """Send outputs, and the group's new offsets, all or nothing.

        :raises LeaseLost: a newer run has fenced this one; nothing was written.
        :raises RecordTooLarge: Kafka refuses one of the outputs for its size.
        :raises BrokerUnavailable: the broker did not answer. Whether the transaction holds is then known to
            the next producer alone, which reads the committed offset after it has fenced this one.
        """
        try:
            self._producer.begin_transaction()
            for output in outputs:
                _produce(self._producer, output)
            offsets = [TopicPartition(self._topic, each.partition, each.offset, each.note) for each in progress]
            self._call(self._producer.send_offsets_to_transaction, offsets, group_metadata)
            faults.reach(faults.CHUNK_PRODUCED)
            self._commit_patiently()
        except KafkaException as error:
            raise self._explain(error.args[0], outputs) from error

    def _commit_patiently(self) -> None:
        """Commit, asking again for as long as the client says that the answer is only late."""
        deadline = time.monotonic() + 2 * self._settings.kafka_timeout_s
        while True:
            try:
                self._call(self._producer.commit_transaction)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _call(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make a call with the timeout, and give up on it when it does not come back.

        A client whose broker goes away and comes back in the middle of a transaction can lose the transaction's
        coordinator for good, and then waits for it whatever its timeout says (seen with librdkafka 2.16).
        """
        timeout_s = self._settings.kafka_timeout_s
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call(*arguments, timeout_s)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, name=f"transaction {self._topic}", daemon=True)
        thread.start()
        thread.join(timeout_s + _GRACE_S)
        if thread.is_alive():
            self._hangs = True
            raise BrokerUnavailable(f"writing the outputs of {self._topic}: no answer for {timeout_s + _GRACE_S:g} s")
        if raised:
            raise raised[0]

    def _explain(self, cause: KafkaError, outputs: Sequence[OutputRecord]) -> PipestreamError:
        if cause.code() in _FENCED:
            return LeaseLost(self._topic, 0, "a newer run took over")
        is_too_large = cause.code() == KafkaError.MSG_SIZE_TOO_LARGE
        if cause.txn_requires_abort() or is_too_large:
            try:
                self._call(self._producer.abort_transaction)
            except (KafkaException, BrokerUnavailable) as error:
                # The broker aborts it when the next producer starts under the same id, or at the timeout.
                log.warning("%s: could not abort the transaction: %s", self._topic, error)
        if is_too_large:
            largest = max(outputs, key=lambda output: len(output.value or b""))
            return RecordTooLarge(self._topic, largest.topic, len(largest.value or b""))
        return BrokerUnavailable(f"writing the outputs of {self._topic}: {cause}")


def _start(settings: Settings, transactional_id: str, topic: str) -> Producer:
    producer = transactional_producer(settings, transactional_id)
    with explain_errors(settings, topic):
        producer.init_transactions(settings.kafka_timeout_s)
    return producer


def _produce(producer: Producer, output: OutputRecord) -> None:
    headers: list[tuple[str, str | bytes | None]] = list(output.headers)
    while True:
        try:
            producer.produce(output.topic, value=output.value, key=output.key, headers=headers)
        except BufferError:
            # The local queue is full. Deliveries empty it, or they time out and the commit says why.
            producer.poll(1.0)
        else:
            return
