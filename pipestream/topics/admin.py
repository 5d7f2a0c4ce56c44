"""Create, change and delete topics. Each call asks the broker and waits until the change is visible."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it does not declare what it exports
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from pipestream.errors import BrokerUnavailable, TopicMissing
from pipestream.kafka.broker import MAX_MESSAGE, RETENTION, Broker, TopicConfig
from pipestream.kafka.errors import explain_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pipestream.topics.required import TopicSpec

log = logging.getLogger(__name__)

# A controller accepts at most 10,000 records per request: one per topic, per partition and per setting.
_BATCH_RECORDS = 4_000
# Asking about thousands of topics slows down a broker that is busy creating them, so the pauses grow.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.03, 0.5


class TopicAdmin(Broker):
    """The broker, and what changes its topics."""

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
                    replication_factor=self._settings.kafka_replication,
                    config=_config(spec),
                )
                for spec in batch
            ]
            futures = self._ask(self._admin.create_topics, topics, **self._timeouts())
            created += [name for name, future in futures.items() if self._is_created(name, future)]
        self._wait_until(lambda: set(created) <= self.existing().keys(), "the new topics")
        return sorted(created)

    def grow(self, partitions: Mapping[str, int]) -> None:
        """Give topics more partitions."""
        if partitions:
            wanted = [NewPartitions(name, count) for name, count in partitions.items()]
            futures = self._ask(self._admin.create_partitions, wanted, **self._timeouts())
            for name, future in futures.items():
                self._ask(future.result, topic=name)
            self._wait_until(lambda: _are_grown(self.existing(), partitions), "the new partitions")

    def set_retention_ms(self, retention_ms: Mapping[str, int]) -> None:
        """Change how long topics keep their records."""
        self._set_numbers(RETENTION, retention_ms, lambda config: config.retention_ms)

    def set_max_message_bytes(self, max_message_bytes: Mapping[str, int]) -> None:
        """Change how large a batch of records topics take."""
        self._set_numbers(MAX_MESSAGE, max_message_bytes, lambda config: config.max_message_bytes)

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics and wait until they are gone. A topic that does not exist is not an error."""
        if not names:
            return
        futures = self._ask(self._admin.delete_topics, list(names), **self._timeouts())
        for name, future in futures.items():
            try:
                self._ask(future.result, topic=name)
            except TopicMissing:
                log.debug("topic %s was not there", name)
        self._wait_until(lambda: not set(names) & self.existing().keys(), "the deletion of topics")

    def _is_created(self, name: str, future: Any) -> bool:
        """Wait for a topic to be created. Return False if it already existed."""
        with explain_errors(self._settings, name):
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                log.debug("topic %s is already there", name)
                return False
        return True

    def _set_numbers(self, option: str, values: Mapping[str, int], number_of: Callable[[TopicConfig], int]) -> None:
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
        futures = self._ask(self._admin.incremental_alter_configs, resources, request_timeout=self._timeout_s)
        for resource, future in futures.items():
            self._ask(future.result, topic=resource.name)
        self._wait_until(
            lambda: values == {name: number_of(config) for name, config in self.configs(values).items()},
            f"the new {option}",
        )

    def _timeouts(self) -> dict[str, Any]:
        return {"operation_timeout": self._timeout_s, "request_timeout": self._timeout_s}

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until the brokers know what the controller has already done."""
        deadline = time.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while not done():
            if time.monotonic() > deadline:
                address = self._settings.kafka_bootstrap
                raise BrokerUnavailable(f"Kafka at {address} did not show {what} within {self._timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    def _ask(self, ask: Callable[..., Any], *arguments: Any, topic: str = "", **options: Any) -> Any:
        with explain_errors(self._settings, topic):
            return ask(*arguments, **options)


def _are_grown(existing: Mapping[str, int], partitions: Mapping[str, int]) -> bool:
    """Return whether topics have this many partitions, or more if someone else added some meanwhile."""
    return all(existing.get(name, 0) >= count for name, count in partitions.items())


def _config(spec: TopicSpec) -> dict[str, str]:
    wanted = {RETENTION: spec.retention_ms, MAX_MESSAGE: spec.max_message_bytes}
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
