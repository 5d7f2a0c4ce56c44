"""Send outputs, and how far their inputs are read (where they have any in Kafka), in one transaction."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from pipestream import faults
from pipestream.errors import BrokerUnavailable, PipestreamError, ProducerFenced, RecordTooLarge
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import LINGER_MS, TRANSACTION_TIMEOUT_S, start_producer
from pipestream.kafka.errors import explain_while, is_fenced
from pipestream.kafka.records import OutputRecord
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# A call that is this much later than its own timeout will not come back.
_GRACE_S = 5.0
# What a batch of one record takes besides the record, and a record besides its parts, in Kafka's format, at most; and
# how much larger a batch can get by compressing what cannot be compressed.
_BATCH_BYTES = 128
_HEADER_BYTES = 16
_COMPRESSED = 1.01
# What the client takes for "let the key decide" (librdkafka's RD_KAFKA_PARTITION_UA).
PARTITION_OF_KEY = -1
# Deliveries are waited for in such slices, to hear in between that one was refused.
_DELIVERY_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a partition continues after a transaction, and the metadata committed with that offset."""

    partition: int
    offset: int
    metadata: str = ""


def _size_in_batch(output: OutputRecord) -> int:
    """Return how many bytes a record adds to a batch at most."""
    return int(output.size_bytes * _COMPRESSED) + _BATCH_BYTES + _HEADER_BYTES * len(output.headers)


class _Refused(Exception):
    """Kafka refused a record of the transaction for its size. The transaction is aborted."""


class _Hangs(Exception):
    """A call did not come back."""


class _Caller:
    """Makes calls in a thread of its own, so that whoever waits for one can give up.

    One thread for all calls of a writer: to start one for each commit costs a small transaction a tenth of its time.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._raised: SimpleQueue[BaseException | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, call: Callable[[], Any], timeout_s: float) -> None:
        """Make a call, and raise what it raises.

        :raises _Hangs: it did not come back in time. Then the caller cannot be used any more.
        """
        self._calls.put(call)
        try:
            raised = self._raised.get(timeout=timeout_s)
        except Empty:
            raise _Hangs from None
        if raised is not None:
            raise raised

    def close(self) -> None:
        """End the thread after the call that it makes."""
        self._calls.put(None)

    def _run(self) -> None:
        while self._make(self._calls.get()):
            pass

    def _make(self, call: Callable[[], Any] | None) -> bool:
        """Make one call. In a function of its own, so that nothing keeps the client alive between two calls."""
        if call is None:
            return False
        try:
            call()
        except BaseException as error:
            self._raised.put(error)
        else:
            self._raised.put(None)
        return True


class TransactionalWriter:
    """The one producer that may write for its partitions: starting it fences every earlier one under any of its ids."""

    def __init__(
        self,
        settings: Settings,
        transactional_ids: Sequence[str],
        topic: str,
        transaction_timeout_s: float = TRANSACTION_TIMEOUT_S,
        linger_ms: int = LINGER_MS,
    ) -> None:
        """Start the producer, under the first of the ids, then fence every producer under the others.

        In this order: of two writers that fence each other, the one that starts last fences the other, however their
        steps interleave. If each fenced first, both could start afterwards, and both would write.

        :param transaction_timeout_s: when the broker aborts what a dead process left open. Until then it holds back
            the readers of every topic that the transaction wrote to.
        :param linger_ms: how long the client waits for more records before it sends a batch.
        """
        self._settings = settings
        self._topic = topic
        self._hangs = False
        self._has_failed = False
        self._is_refused = False
        self._lost_count = False
        self._caller: _Caller | None = None
        own, *others = transactional_ids
        self._producer = start_producer(settings, own, topic, transaction_timeout_s, linger_ms)
        try:
            for other in others:
                start_producer(settings, other, topic).close()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the producer back. Under its id, nothing more is written."""
        if self._caller is not None:
            self._caller.close()
        if self._hangs:
            return  # closing would wait for the call that hangs
        try:
            # The client warns of a transaction that a fenced producer cannot abort. Where warnings are errors, that
            # breaks it (confluent-kafka 2.16).
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                self._producer.close()
        except KafkaException as error:
            # A fenced producer fails here once more, and would hide the ProducerFenced that commit has raised.
            log.warning("%s: closing the producer: %s", self._topic, error)

    def commit(
        self, outputs: Sequence[OutputRecord], progress: Iterable[Progress] = (), group_metadata: Any = None
    ) -> None:
        """Send outputs, and the group's new offsets, all or nothing.

        :param progress: nothing for outputs whose inputs are not in Kafka, such as calls. Then there is no group.
        :raises ProducerFenced: a newer run has fenced this one; nothing was written.
        :raises RecordTooLarge: Kafka refuses one of the outputs for its size; nothing was written, and the writer
            may be used again.
        :raises BrokerUnavailable: the broker did not answer. Whether the transaction holds is then known to
            the next producer alone, which reads the committed offset after it has fenced this one.
        """
        offsets = [TopicPartition(self._topic, each.partition, each.offset, each.metadata) for each in progress]
        try:
            self._transact(partial(self._send, outputs, offsets, group_metadata))
        except _Refused:
            limits = self._ask_limits(outputs)
            index = self._find_refused(outputs, limits)
            if index is not None:
                output = outputs[index]
                limit = limits[output.topic]
                raise RecordTooLarge(self._topic, output.topic, output.size_bytes, limit, index) from None
            try:
                self._transact(partial(self._send, outputs, offsets, group_metadata, limits))
            except _Refused:
                raise BrokerUnavailable(f"writing the outputs of {self._topic}: a topic's limit has changed") from None

    def _ask_limits(self, outputs: Iterable[OutputRecord]) -> dict[str, int]:
        """Return the size of a batch that each topic takes at most."""
        found = Broker(self._settings).configs({output.topic for output in outputs})
        return {topic: config.max_message_bytes for topic, config in found.items()}

    def _send(
        self,
        outputs: Sequence[OutputRecord],
        offsets: list[TopicPartition],
        group_metadata: Any,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        """Send outputs and offsets, and commit.

        :param limits: wait for deliveries whenever more in one batch could be too much for a topic.
        """
        waiting: Counter[str] = Counter()
        for output in outputs:
            if limits:
                size = _size_in_batch(output)
                if waiting[output.topic] + size > limits[output.topic]:
                    self._deliver()
                    waiting.clear()
                waiting[output.topic] += size
            self._produce(output)
        if offsets:
            self._call(self._producer.send_offsets_to_transaction, offsets, group_metadata)
        # Before the commit, which would wait for records that, behind a refused one in their partition, are never sent.
        self._deliver()
        faults.reach(faults.CHUNK_PRODUCED)
        self._commit_patiently(time.monotonic() + 2 * self._settings.kafka_timeout_s)

    def _find_refused(self, outputs: Sequence[OutputRecord], limits: Mapping[str, int]) -> int | None:
        """Return the place of an output that Kafka refuses even by itself, looking at the largest first.

        Kafka judges whole batches, compressed: of a record larger than its topic's limit, only sending it tells.
        """
        suspect = [place for place, each in enumerate(outputs) if _size_in_batch(each) > limits[each.topic]]
        if not suspect:
            return None
        places = sorted(suspect, key=lambda place: outputs[place].size_bytes, reverse=True)
        sent: list[int] = []

        def send_each() -> None:
            sent.clear()
            for place in places:
                sent.append(place)
                self._produce(outputs[place])
                self._deliver()
                if len(self._producer):  # a refusal that comes later would be taken for the next one's
                    raise BrokerUnavailable(f"writing the outputs of {self._topic}: a record is not acknowledged")
            self._call(self._producer.abort_transaction)

        try:
            self._transact(send_each)
        except _Refused:
            return sent[-1]
        return None

    def _transact(self, work: Callable[[], None]) -> None:
        """Do a transaction's work, which ends it; abort it where the work fails.

        :raises _Refused: Kafka refused a record for its size.
        """
        self._has_failed = self._is_refused = False
        try:
            self._producer.begin_transaction()
            work()
        except KafkaException as error:
            cause = self._find_cause(error.args[0])
            is_too_large = cause.code() == KafkaError.MSG_SIZE_TOO_LARGE
            # Records that follow on a failure are refused with _STATE; only a commit may leave the outcome open.
            is_failed = cause.txn_requires_abort() or is_too_large or cause.code() == KafkaError._STATE
            if is_failed:
                self._abort()  # its callbacks also report what was refused
            if is_too_large or self._is_refused:
                self._lost_count = True
                raise _Refused from error
            if is_failed and self._lost_count and not is_fenced(cause):
                # After a refused batch the client may continue to count where the broker did not (librdkafka
                # 2.16). The abort has asked the broker for a new epoch, and with it both start again from zero.
                self._lost_count = False
                self._transact(work)
                return
            raise self._explain(cause) from error

    def _find_cause(self, error: KafkaError) -> KafkaError:
        """Return why a producer is broken. It refuses records without a reason; a call about the transaction has it."""
        if error.code() != KafkaError._FATAL:
            return error
        try:
            self._call(self._producer.abort_transaction)
        except KafkaException as told:
            cause: KafkaError = told.args[0]
            return cause
        return error

    def _deliver(self) -> None:
        """Wait until what was produced has arrived.

        Errors other than a refusal are reported by the next call or by the commit. Once a record has failed, the
        client sends no more of this transaction, so waiting for the others has no effect.
        """
        deadline = time.monotonic() + self._settings.kafka_timeout_s
        while self._producer.flush(_DELIVERY_POLL_S) and not self._has_failed and time.monotonic() < deadline:
            pass
        if self._is_refused:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    def _note_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._has_failed = True
            self._is_refused = self._is_refused or error.code() == KafkaError.MSG_SIZE_TOO_LARGE

    def _produce(self, output: OutputRecord) -> None:
        headers: list[tuple[str, str | bytes | None]] = list(output.headers)
        partition = PARTITION_OF_KEY if output.partition is None else output.partition
        while True:
            try:
                # By position as far as possible: the client takes longer to find arguments by name.
                self._producer.produce(
                    output.topic, output.value, output.key, partition, self._note_delivery, headers=headers
                )
            except BufferError:
                # The local queue is full. Deliveries empty it, or they time out and the commit says why.
                self._producer.poll(1.0)
            else:
                return

    def _commit_patiently(self, deadline: float) -> None:
        """Commit, asking again for as long as the client says that the answer is only late."""
        while True:
            try:
                self._call(self._producer.commit_transaction)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _abort(self) -> None:
        try:
            self._call(self._producer.abort_transaction)
        except (KafkaException, BrokerUnavailable) as error:
            # The broker aborts it when the next producer starts under the same id, or at the timeout.
            log.warning("%s: could not abort the transaction: %s", self._topic, error)
            if self._hangs:
                raise

    def _call(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make a call with the timeout, and give up on it when it does not come back.

        A client whose broker goes away and comes back in the middle of a transaction can lose the transaction's
        coordinator for good, and then waits for it whatever its timeout says (seen with librdkafka 2.16).
        """
        timeout_s = self._settings.kafka_timeout_s
        if self._hangs:  # its late answer would be taken for that of this call
            raise BrokerUnavailable(f"writing the outputs of {self._topic}: an earlier call has not come back")
        if self._caller is None:
            self._caller = _Caller(f"transaction {self._topic}")
        try:
            self._caller.call(partial(call, *arguments, timeout_s), timeout_s + _GRACE_S)
        except _Hangs:
            self._hangs = True
            message = f"writing the outputs of {self._topic}: no answer for {timeout_s + _GRACE_S:g} s"
            raise BrokerUnavailable(message) from None

    def _explain(self, cause: KafkaError) -> PipestreamError:
        if is_fenced(cause):
            return ProducerFenced(self._topic)
        return explain_while(f"writing the outputs of {self._topic}", cause)
