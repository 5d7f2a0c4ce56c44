"""Traces: one document from intake to its end, across topics, runs and servers.

A record carries its trace in the header ``traceparent`` (W3C), a stream in ``metadata.trace_id``. A trace that somebody
else began is passed on whether or not this process exports spans. Without an exporter, and without such a header,
tracing costs one comparison per document.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pipestream.extras import needs_extra
from pipestream.settings import Settings

TRACEPARENT = "traceparent"

_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PROPAGATOR = TraceContextTextMapPropagator()
_EXPORTING: set[str] = set()
"""The service that this process exports spans for. Kept here, because it is looked up for every document."""
# A child that was forked exports nothing, until it sets up an exporter of its own.
os.register_at_fork(after_in_child=_EXPORTING.clear)


def setup_tracing(settings: Settings, service: str) -> None:
    """Export the spans of this process, if the settings name a collector. May be called again, also after a fork.

    :raises ExtraMissing: a collector is named, and the SDK is not installed.
    """
    if not settings.otlp_endpoint or _is_exporting():
        return
    with needs_extra("live"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    exporter = OTLPSpanExporter(endpoint=f"{settings.otlp_endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    _EXPORTING.add(service)


def _is_exporting() -> bool:
    return bool(_EXPORTING)


def is_traced(traceparent: str = "") -> bool:
    """Tell whether ``span`` yields one. Where it does not, a caller that is in a hurry can do without it."""
    return bool(traceparent) or bool(_EXPORTING)


def flush_spans(timeout_s: float = 5.0) -> None:
    """Send the spans that wait. A worker of Spark may be ended at any time after its task."""
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None and _is_exporting():
        flush(int(timeout_s * 1000))


@contextmanager
def span(name: str, traceparent: str = "", trace_id: str = "", **attributes: str) -> Iterator[Span | None]:
    """Yield a span, or None where nothing is traced. An error that is raised is recorded in the span.

    :param traceparent: the header of what is being worked on; without one, ``trace_id`` says the trace, and without
        both the span is part of the one around it, or begins a trace.
    """
    if not is_traced(traceparent):
        yield None
        return
    parent = _parent(traceparent, trace_id, attributes.get("pipestream.stream", ""))
    tracer = trace.get_tracer("pipestream")
    with tracer.start_as_current_span(name, context=parent, attributes=attributes) as started:
        yield started


def record_error(started: Span | None, error: BaseException) -> None:
    """Mark a span as failed, without its text: that may hold a part of a document."""
    if started is not None:
        started.set_status(Status(StatusCode.ERROR, type(error).__name__))


def header_of(started: Span | None) -> str:
    """Return the ``traceparent`` for what leaves; empty where nothing is traced."""
    if started is None:
        return ""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(started))
    return carrier.get(TRACEPARENT, "")


def trace_metadata(trace_id: str, stream_id: str) -> list[tuple[str, str]]:
    """Return what a gRPC call carries, so that whoever is called continues the trace; empty where nothing is traced.

    It is the trace of the span that is open. Without one, it is the trace that the stream names, which somebody else
    began and this process makes no spans of.
    """
    around = trace.get_current_span()
    if not around.get_span_context().is_valid:
        around = trace.get_current_span(_parent("", trace_id, stream_id))
    header = header_of(around)
    return [(TRACEPARENT, header)] if header else []


def trace_id_of(started: Span | None) -> str:
    """Return the trace's id as a stream's metadata has it; empty where nothing is traced."""
    context = started.get_span_context() if started is not None else None
    return trace.format_trace_id(context.trace_id) if context is not None and context.is_valid else ""


def _parent(traceparent: str, trace_id: str, stream_id: str) -> Context | None:
    if traceparent:
        found = _PROPAGATOR.extract({TRACEPARENT: traceparent})
        if trace.get_current_span(found).get_span_context().is_valid:
            return found
    if not _TRACE_ID.fullmatch(trace_id) or not int(trace_id, 16):
        return None
    # The sender named a trace and no span: all that is done for the stream hangs below one that is derived from it.
    span_id = int.from_bytes(hashlib.blake2b(stream_id.encode(), digest_size=8).digest()) or 1
    context = SpanContext(int(trace_id, 16), span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(context))
