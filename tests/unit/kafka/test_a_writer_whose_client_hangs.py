"""A client that does not come back from a call, which no real broker can be made to cause at will."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipestream.errors import BrokerUnavailable
from pipestream.kafka import writer
from pipestream.kafka.records import OutputRecord
from pipestream.kafka.writer import Progress, TransactionalWriter


class HangingProducer:
    """Refuses the first record for its size, and hangs in the abort behind that. Every commit fails."""

    def __init__(self) -> None:
        self.is_back = threading.Event()
        self.has_hung = False
        self._note_delivery = lambda _error, _message: None

    def begin_transaction(self) -> None:
        """It always can."""

    def produce(self, _topic, _value, _key, _partition, note_delivery, headers=()) -> None:
        self._note_delivery = note_delivery

    def flush(self, _timeout_s) -> int:
        if not self.has_hung:
            self._note_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
        return 0

    def abort_transaction(self, _timeout_s) -> None:
        self.has_hung = True
        self.is_back.wait(60)

    def send_offsets_to_transaction(self, _offsets, _group, _timeout_s) -> None:
        """It always can."""

    def commit_transaction(self, _timeout_s) -> None:
        raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))

    def __len__(self) -> int:
        return 0


@pytest.fixture
def producer(monkeypatch) -> HangingProducer:
    made = HangingProducer()
    monkeypatch.setattr(writer, "start_producer", lambda *_: made)
    monkeypatch.setattr(writer, "_GRACE_S", 0.1)
    return made


def test_the_late_answer_of_a_call_is_not_taken_for_that_of_the_next(producer, monkeypatch):
    def ask_limits(_writer, _outputs) -> dict[str, int]:
        producer.is_back.set()  # the broker answers again
        return {"out": 1_000_000}

    monkeypatch.setattr(TransactionalWriter, "_ask_limits", ask_limits)
    settings = SimpleNamespace(kafka_timeout_s=0.1)
    hanging = TransactionalWriter(settings, ["id"], "in")

    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            hanging.commit([OutputRecord("out", b"k", b"document")], [Progress(0, 5)])
    producer.is_back.set()
    hanging.close()
