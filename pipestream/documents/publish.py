"""What is published of an uploaded document, and the topic that it is published to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pipestream.documents.outbox import Announcement
from pipestream.errors import TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.topic_names import intake_topic
from pipestream.wire import DocumentReference, PipeStream, StreamMetadata

if TYPE_CHECKING:
    from pipestream.documents.catalogue import Catalogued
    from pipestream.graph.model import Datasource
    from pipestream.settings import Settings

DOC_ID_HEADER = "pipestream-doc-id"
CONTENT_TYPE = "application/x-protobuf; messageType=ai.pipestream.data.v1.PipeStream"
API_SOURCE = "api"
"""The source id of documents that no connector brought."""

# A topic just made is confirmed by the controller before every broker knows it.
_PROPAGATION_S = 2.0


class IntakeTopics:
    """Looks for the intake topics of datasources."""

    def __init__(self, settings: Settings) -> None:
        self._broker = Broker(settings)

    def check(self, datasource_id: str) -> str:
        """Return a datasource's intake topic.

        :raises TopicMissing: it does not exist. Asked for explicitly because a producer would have a broker
            that allows it create the topic, with the wrong number of partitions.
        :raises BrokerUnavailable: no broker answered.
        """
        topic = intake_topic(datasource_id)
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


def announce(row: Catalogued, datasource: Datasource, traceparent: str = "") -> Announcement:
    """Return the reference to a document for the outbox, with the trace that its upload is part of."""
    traced = {TRACEPARENT: traceparent} if traceparent else {}
    return Announcement(
        account_id=row.account_id,
        datasource_id=row.datasource_id,
        doc_id=row.doc_id,
        object_key=row.object_key,
        value=intake_stream(row, datasource).SerializeToString(deterministic=True),
        headers={DOC_ID_HEADER: row.doc_id, "content-type": CONTENT_TYPE, **traced},
    )


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
