"""A topic that keeps the last value of each key forever, written in transactions and read to its end."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # it does not declare what it exports

from pipestream.errors import BrokerUnavailable, TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import TRANSACTION_TIMEOUT_S, admin_client, range_consumer
from pipestream.kafka.errors import explain_errors, is_end_of_partition, is_passing

if TYPE_CHECKING:
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

_POLL_S = 0.5
# Small segments, so that the cleaner, which leaves the newest one alone, keeps the topic short: a reader reads all.
_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}


class CompactedTopic:
    """One partition of the last values by key."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.name = name
        self._settings = settings
        self._broker = Broker(settings)

    def ensure(self) -> None:
        """Create the topic if it is not there.

        :raises BrokerRefused: we may not create it.
        """
        try:
            self._broker.identify(self.name)
        except TopicMissing:
            self._create()

    def latest(self, key: bytes) -> bytes | None:
        """Return the last committed value of a key.

        Call it after the producer whose record is looked for was fenced. It reads up to what is written now, and waits
        for transactions of others that are open before that: behind them a committed record does not show yet.

        :raises BrokerUnavailable: the topic could not be read to its end.
        """
        end = self._broker.written_ends(self.name, [0])[0]
        timeout_s = self._settings.kafka_timeout_s + TRANSACTION_TIMEOUT_S
        deadline = time.monotonic() + timeout_s
        found: bytes | None = None
        with (
            explain_errors(self._settings, self.name),
            closing(range_consumer(self._settings, "pipestream.scan")) as consumer,
        ):
            consumer.assign([TopicPartition(self.name, 0, OFFSET_BEGINNING)])
            position = 0
            while position < end:
                if time.monotonic() > deadline:
                    raise BrokerUnavailable(f"{self.name} could not be read to its end within {timeout_s:g} s")
                message = consumer.poll(_POLL_S)
                if message is None:
                    continue
                position, is_record = _read_position(message, position)
                if is_record and message.key() == key:
                    found = message.value()
        return found

    def _create(self) -> None:
        wanted = NewTopic(self.name, 1, self._settings.kafka_replication, config=_CONFIG)
        timeout_s = self._settings.kafka_timeout_s
        deadline = time.monotonic() + timeout_s
        admin = admin_client(self._settings)  # kept, because an answer cannot reach a client that is gone
        with explain_errors(self._settings, self.name):
            future = admin.create_topics([wanted], operation_timeout=timeout_s, request_timeout=timeout_s)[self.name]
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        log.info("created the topic %s", self.name)
        while True:  # the controller knows it before every broker does
            try:
                self._broker.identify(self.name)
            except TopicMissing:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


def _read_position(message: Message, before: int) -> tuple[int, bool]:
    """Return where the reader stands after a message, and whether it is a record.

    Markers of transactions have offsets too, and only the event that the partition is read to its end counts them.
    """
    error, offset = message.error(), message.offset()
    if error is None:
        return (offset or 0) + 1, True
    if is_end_of_partition(error):
        return max(before, offset or 0), False
    if is_passing(error):
        return before, False
    raise KafkaException(error)
