from __future__ import annotations

from confluent_kafka import IsolationLevel

from pipestream.kafka.broker import Broker
from pipestream.kafka.records import Watermarks
from pipestream.settings import Settings


class BusyBroker(Broker):
    """At every look it has ten more records, and shows those of the look before."""

    def __init__(self) -> None:
        super().__init__(Settings())
        self.written = 0
        self.looks = 0

    def _list_offsets(self, wanted, spec, isolation=IsolationLevel.READ_COMMITTED):
        stable, self.written = self.written, self.written + 10
        self.looks += 1
        end = self.written if isolation is IsolationLevel.READ_UNCOMMITTED else stable
        return {each.partition: end for each in wanted}


def test_what_was_there_when_asked_is_waited_for_and_not_what_is_written_meanwhile():
    broker = BusyBroker()

    marks = broker.settled_watermarks("intake.a", [0])

    assert marks == {0: Watermarks(10, 20)}
    assert broker.looks == 3
