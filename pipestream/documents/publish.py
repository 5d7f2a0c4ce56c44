"""Publish references to uploaded documents to the intake topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from pipestream.errors import BrokerRefused, BrokerUnavailable, TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import idempotent_producer
from pipestream.kafka.errors import explain
from pipestream.topic_names import intake_topic
from pipestream.wire import DocumentReference, PipeStream, StreamMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.documents.catalogue import Catalogued
    from pipestream.graph.model import Datasource
    from pipestream.settings import Settings

DOC_ID_HEADER = "pipestream-doc-id"
CONTENT_TYPE = "application/x-protobuf; messageType=ai.pipestream.data.v1.PipeStream"
API_SOURCE = "api"
"""The source id of documents that no connector brought."""

# A topic just made is confirmed by the controller before every broker knows it.
_PROPAGATION_S = 2.0


class IntakePublisher:
    """An idempotent producer of intake records. One per process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.kafka_timeout_s
        self._broker = Broker(settings)
        self._producer = idempotent_producer(settings)

    def check_topic(self, datasource: Datasource) -> str:
        """Return the datasource's intake topic.

        :raises TopicMissing: it does not exist. Asked for explicitly because a producer would have a broker
            that allows it create the topic, with the wrong number of partitions.
        :raises BrokerUnavailable: no broker answered.
        """
        topic = intake_topic(datasource.datasource_id)
        deadline = time.monotonic() + _PROPAGATION_S
        while True:
            try:
                self._broker.identify(topic)
            except TopicMissing:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return topic

    def publish(
        self, rows: Sequence[Catalogued], datasource: Datasource
    ) -> tuple[list[Catalogued], TopicMissing | BrokerRefused | BrokerUnavailable | None]:
        """Publish references to ``rows``; return those that Kafka confirmed, and what kept back the others.

        What is not confirmed may still have been written: publishing it again can repeat it.
        """
        topic = intake_topic(datasource.datasource_id)
        confirmed: list[Catalogued] = []
        errors: list[KafkaError] = []
        try:
            for row in rows:
                self._send(topic, row, datasource, confirmed, errors)
            self._producer.flush(self._timeout_s + 5)
        except KafkaException as error:
            errors.append(error.args[0])
        if errors:
            return confirmed, explain(errors[0], self._settings, topic)
        if len(confirmed) < len(rows):
            missing = len(rows) - len(confirmed)
            return confirmed, BrokerUnavailable(
                f"Kafka at {self._settings.kafka_bootstrap} did not confirm {missing} references to {topic} "
                f"in {self._timeout_s + 5:g} s"
            )
        return confirmed, None

    def _send(
        self,
        topic: str,
        row: Catalogued,
        datasource: Datasource,
        confirmed: list[Catalogued],
        errors: list[KafkaError],
    ) -> None:
        def report(error: KafkaError | None, _message: Any) -> None:
            if error is None:
                confirmed.append(row)
            else:
                errors.append(error)

        headers: list[tuple[str, str | bytes | None]] = [
            (DOC_ID_HEADER, row.doc_id),
            ("content-type", CONTENT_TYPE),
        ]
        value = intake_stream(row, datasource).SerializeToString(deterministic=True)
        while True:
            try:
                self._producer.produce(topic, value, key=row.doc_id, headers=headers, on_delivery=report)
            except BufferError:
                self._producer.poll(0.1)  # its queue is full; reports of what was sent make room
            else:
                self._producer.poll(0)
                return

    def close(self) -> None:
        """Drop what is not sent: the catalogue knows it as pending."""
        self._producer.purge()
        self._producer.flush(1)


def intake_stream(row: Catalogued, datasource: Datasource) -> PipeStream:
    """Return the intake record of an uploaded document. It has no stream id: the drain derives it."""
    metadata = StreamMetadata(
        source_id=datasource.connector.kind if datasource.connector else API_SOURCE,
        datasource_id=datasource.datasource_id,
        account_id=datasource.account_id,
        entry_node_id=datasource.entry_node_id,
    )
    if row.updated_at is not None:
        metadata.created_at.FromDatetime(row.updated_at)
    reference = DocumentReference(doc_id=row.doc_id, account_id=row.account_id, object_key=row.object_key)
    return PipeStream(metadata=metadata, document_ref=reference)
