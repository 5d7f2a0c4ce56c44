"""Create, describe and delete topics. Thin: it asks the broker and turns its errors into ours."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it does not declare what it exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from pipestream.errors import BrokerUnavailable, TerminalError, TopicMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pipestream.settings import Settings
    from pipestream.topics.required import TopicSpec

_LOG = logging.getLogger(__name__)

# A controller takes at most 10,000 records per request: one per topic, per partition and per setting.
_BATCH_RECORDS = 4_000
_DESCRIBE_BATCH = 500
# Asking for thousands of topics costs a broker that is busy making them, so the pauses grow.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.03, 0.5
_RETENTION = "retention.ms"
_MAX_MESSAGE = "max.message.bytes"
_UNREACHABLE = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
)


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The offsets a partition holds: ``low`` is readable, ``high`` is the next to be written."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """How a topic is set up, as far as this product looks after it."""

    retention_ms: int
    """How long it keeps its records; -1 is for ever."""
    max_message_bytes: int
    """How large a batch of records it takes, compressed as it arrives."""


class TopicAdmin:
    """The broker's topics, as far as this product looks after them. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._address = settings.kafka_bootstrap
        self._timeout_s = settings.kafka_timeout_s
        self._replication = settings.kafka_replication
        self._client = AdminClient({"bootstrap.servers": self._address}, logger=_LOG)

    def existing(self) -> dict[str, int]:
        """Return every topic on the broker with its number of partitions."""
        topics = self._call(self._client.list_topics, timeout=self._timeout_s).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions.

        :raises TopicMissing: there is no such topic.
        """
        return len(self._describe([topic])[topic].partitions)

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics: a topic deleted and made again has another.

        :raises TopicMissing: one of them is not there.
        """
        return {name: str(topic.topic_id) for name, topic in self._describe(list(names)).items()}

    def watermarks(self, topic: str) -> dict[int, Watermarks]:
        """Return what each partition of a topic holds.

        :raises TopicMissing: there is no such topic.
        """
        partitions = [TopicPartition(topic, number) for number in range(self.partitions(topic))]
        low = self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        high = self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {number: Watermarks(low[number], high[number]) for number in low}

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Create topics and wait until the broker knows them; those that exist stay as they are.

        :returns: the names of those that were created.
        """
        created: list[str] = []
        for batch in _batches(specs):
            topics = [
                NewTopic(
                    spec.name,
                    num_partitions=spec.partitions,
                    replication_factor=self._replication,
                    config=_config(spec),
                )
                for spec in batch
            ]
            futures = self._call(self._client.create_topics, topics, **self._timeouts())
            for name, future in futures.items():
                try:
                    self._call(future.result, topic=name)
                    created.append(name)
                except _Exists:
                    _LOG.debug("topic %s is already there", name)
        self._wait_until(lambda: set(created) <= self.existing().keys(), "the new topics")
        return sorted(created)

    def grow(self, partitions: Mapping[str, int]) -> None:
        """Give topics more partitions."""
        if partitions:
            wanted = [NewPartitions(name, count) for name, count in partitions.items()]
            futures = self._call(self._client.create_partitions, wanted, **self._timeouts())
            for name, future in futures.items():
                self._call(future.result, topic=name)
            self._wait_until(
                lambda: partitions.items() <= {name: self.existing().get(name) for name in partitions}.items(),
                "the new partitions",
            )

    def configs(self, names: Iterable[str]) -> dict[str, TopicConfig]:
        """Return how topics are set up.

        :raises TopicMissing: one of them is not there.
        """
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        futures = self._call(self._client.describe_configs, resources, request_timeout=self._timeout_s)
        found = {resource.name: self._call(future.result, topic=resource.name) for resource, future in futures.items()}
        return {
            name: TopicConfig(int(options[_RETENTION].value), int(options[_MAX_MESSAGE].value))
            for name, options in found.items()
        }

    def retention_ms(self, names: Iterable[str]) -> dict[str, int]:
        """Return how long topics keep their records; -1 is for ever."""
        return {name: config.retention_ms for name, config in self.configs(names).items()}

    def max_message_bytes(self, names: Iterable[str]) -> dict[str, int]:
        """Return how large a batch of records topics take, compressed as it arrives."""
        return {name: config.max_message_bytes for name, config in self.configs(names).items()}

    def set_retention_ms(self, retention_ms: Mapping[str, int]) -> None:
        """Change how long topics keep their records."""
        self._set_numbers(_RETENTION, retention_ms)

    def set_max_message_bytes(self, max_message_bytes: Mapping[str, int]) -> None:
        """Change how large a batch of records topics take."""
        self._set_numbers(_MAX_MESSAGE, max_message_bytes)

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics and wait until they are gone. One that is not there is no error."""
        if not names:
            return
        futures = self._call(self._client.delete_topics, list(names), **self._timeouts())
        for name, future in futures.items():
            try:
                self._call(future.result, topic=name)
            except TopicMissing:
                _LOG.debug("topic %s was not there", name)
        self._wait_until(lambda: not set(names) & self.existing().keys(), "the deletion of topics")

    def _set_numbers(self, option: str, values: Mapping[str, int]) -> None:
        if not values:
            return
        resources = [
            ConfigResource(
                ResourceType.TOPIC,
                name,
                incremental_configs=[ConfigEntry(option, str(value), incremental_operation=AlterConfigOpType.SET)],
            )
            for name, value in values.items()
        ]
        futures = self._call(self._client.incremental_alter_configs, resources, request_timeout=self._timeout_s)
        for resource, future in futures.items():
            self._call(future.result, topic=resource.name)

    def _describe(self, names: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for start in range(0, len(names), _DESCRIBE_BATCH):
            batch = TopicCollection(names[start : start + _DESCRIBE_BATCH])
            futures = self._call(self._client.describe_topics, batch, request_timeout=self._timeout_s)
            found.update({name: self._call(future.result, topic=name) for name, future in futures.items()})
        return found

    def _list_offsets(self, partitions: Sequence[TopicPartition], spec: Any) -> dict[int, int]:
        futures = self._call(
            self._client.list_offsets, dict.fromkeys(partitions, spec), request_timeout=self._timeout_s
        )
        return {key.partition: self._call(future.result, topic=key.topic).offset for key, future in futures.items()}

    def _timeouts(self) -> dict[str, Any]:
        return {"operation_timeout": self._timeout_s, "request_timeout": self._timeout_s}

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for the brokers to hear of what the controller has already done."""
        deadline = time.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while not done():
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"Kafka at {self._address} did not show {what} within {self._timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    def _call(self, ask: Callable[..., Any], *arguments: Any, topic: str = "", **options: Any) -> Any:
        """Ask the broker, and turn its errors into ours; ``topic`` is what the question is about."""
        try:
            return ask(*arguments, **options)
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
        if error.code() in _UNREACHABLE:
            raise BrokerUnavailable(f"Kafka at {self._address} does not answer: {error.str()}")
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicMissing(topic)
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            raise _Exists(topic)
        about = f" (topic {topic})" if topic else ""
        raise TerminalError(f"Kafka at {self._address} refuses{about}: {error.str()}")


class _Exists(TerminalError):
    """The topic to be created is already there."""


def _config(spec: TopicSpec) -> dict[str, str]:
    wanted = {_RETENTION: spec.retention_ms, _MAX_MESSAGE: spec.max_message_bytes}
    return {option: str(value) for option, value in wanted.items() if value is not None}


def _batches(specs: Sequence[TopicSpec]) -> Iterable[list[TopicSpec]]:
    batch: list[TopicSpec] = []
    records = 0
    for spec in specs:
        weight = 1 + spec.partitions + len(_config(spec))
        if batch and records + weight > _BATCH_RECORDS:
            yield batch
            batch, records = [], 0
        batch.append(spec)
        records += weight
    if batch:
        yield batch
