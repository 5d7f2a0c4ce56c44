"""The metrics that servers count of their own work, for Prometheus. Each is defined here, and nowhere else.

A queue is a Kafka topic, so the first group can be read next to the metrics of any other queue worker. Labels are names
of topics, nodes and kinds, never ids of documents: every value of a label is a time series that Prometheus keeps.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_NAMESPACE = "pipestream"

# From a routing decision of a millisecond to a module that may take its five minutes.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 300)
_BYTES = (256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216)


def _counter(name: str, help_: str, *labels: str) -> Counter:
    return Counter(name, help_, labels, namespace=_NAMESPACE)


def _seconds(name: str, help_: str, *labels: str) -> Histogram:
    return Histogram(f"{name}_seconds", help_, labels, namespace=_NAMESPACE, buckets=_SECONDS)


def _gauge(name: str, help_: str, *labels: str) -> Gauge:
    # Of several processes that share a port, the values add up. Those of a process that has died do not count.
    return Gauge(name, help_, labels, namespace=_NAMESPACE, multiprocess_mode="livesum")


MESSAGES_RECEIVED = _counter("messages_received", "Records and calls that arrived.", "queue", "transport")
MESSAGES_PROCESSED = _counter("messages_processed", "Streams that a node processed, by result.", "queue", "status")
MESSAGES_SENT = _counter("messages_sent", "Streams that were sent on.", "destination_queue", "message_type")
MESSAGES_FAILED = _counter("messages_failed", "Streams that failed at a node, by reason.", "queue", "reason")
RUNTIME_ERRORS = _counter("runtime_errors", "Calls of a module that failed, retries included.", "queue", "error_type")
PROCESSING_DURATION = _seconds("processing_duration", "From a stream's arrival at a node to its routes.", "queue")
RUNTIME_DURATION = _seconds("runtime_execution_duration", "One call of a module.", "queue")
RECEIVE_DURATION = _seconds("queue_receive_duration", "Reading a chunk of records, with the wait for them.", "queue")
SEND_DURATION = _seconds("queue_send_duration", "One Kafka transaction: outputs, offsets, commit.", "queue")
ACTIVE_MESSAGES = _gauge("active_messages", "Streams that are being processed now.")
ENVELOPE_SIZE = Histogram(
    "envelope_size_bytes", "Size of records.", ("direction",), namespace=_NAMESPACE, buckets=_BYTES
)

DOC_SUCCESS = _counter("engine_doc_success", "Documents whose every route worked.", "graph")
DOC_FAILURE = _counter("engine_doc_failure", "Documents of which at least one route failed.", "graph")
DLQ_PUBLISHED = _counter("engine_dlq_published", "Dead letters written.", "graph", "node", "error_type")
ROUTING_DISPATCHED = _counter("engine_routing_dispatched", "Streams sent along an edge.", "graph", "edge")
HYDRATION_DURATION = _seconds("engine_hydration_duration", "Fetching the documents of a chunk or of a call.", "graph")
DISPATCH_DURATION = _seconds("engine_dispatch_duration", "Storing the objects of a chunk or of a call.", "graph")

LEASE_SINCE = _gauge(
    "lease_acquired_timestamp_seconds", "When this process acquired a lease; 0: released.", "lease", "slot"
)
GRPC_CALLS = _counter("grpc_calls", "gRPC calls that were answered, by status code.", "method", "code")
GRPC_DURATION = _seconds("grpc_call_duration", "From a gRPC call to its answer.", "method")
HTTP_REQUESTS = _counter("http_requests", "HTTP requests that were answered, by status code.", "route", "code")
UPLOADS = _counter("repository_uploads", "Documents that were taken in, by outcome.", "datasource", "outcome")
OUTBOX_WAITING = _gauge("repository_outbox_waiting", "References that wait to be published.", "datasource")
