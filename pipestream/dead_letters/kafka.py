"""What an action on dead letters asks of Kafka.

The protocols say all of it, so that ``pipestream_testing`` can run the same action on a model of the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from pipestream.dead_letters.decisions import ActionPlan, Decisions
from pipestream.dead_letters.log import DecisionLog
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.kafka.records import Watermarks
from pipestream.offsets.range_reader import KafkaRangeBroker, RangeBroker
from pipestream.settings import Settings


class Log(Protocol):
    """Where decisions are kept: see ``DecisionLog``."""

    def ensure(self) -> None: ...

    def read(self) -> Decisions: ...

    def read_settled(self) -> Decisions: ...

    def write_plan(self, plan: ActionPlan) -> None: ...


class LetterBroker(RangeBroker, Protocol):
    """Kafka, as far as an action on dead letters needs it."""

    @property
    def log(self) -> Log: ...

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""

    def identify(self, topic: str) -> TopicIdentity: ...

    def watermarks(self, topic: str, partitions: Iterable[int]) -> Mapping[int, Watermarks]: ...

    def settled_watermarks(self, topic: str, partitions: Iterable[int]) -> Mapping[int, Watermarks]: ...


class KafkaLetterBroker(Broker, KafkaRangeBroker):
    """The broker of the settings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.log = DecisionLog(settings)

    def topics(self) -> Collection[str]:
        return self.existing()
