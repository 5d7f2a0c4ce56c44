from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pipestream.telemetry.tracing import TRACEPARENT, header_of, span, trace_id_of, trace_metadata

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def test_a_trace_that_others_began_is_passed_on_without_an_exporter():
    with span("process a", PARENT) as traced:
        assert header_of(traced) == PARENT
        assert trace_id_of(traced) == TRACE


def test_without_an_exporter_and_without_a_header_nothing_is_traced():
    with span("process a", trace_id=TRACE) as traced:
        assert traced is None
    assert (header_of(None), trace_id_of(None)) == ("", "")


@pytest.mark.parametrize("header", ["", "nonsense", "00-0-0-00", f"00-{'0' * 32}-{'0' * 16}-01"])
def test_a_header_that_is_not_a_trace_is_not_passed_on(header):
    with span("process a", header) as traced:
        assert header_of(traced) == ""


def test_a_call_carries_the_trace_of_the_open_span_and_without_one_that_of_the_stream():
    with span("process a", PARENT):
        assert trace_metadata("", "stream-1") == trace_metadata("f" * 32, "stream-1") == [(TRACEPARENT, PARENT)]

    ((name, value),) = trace_metadata(TRACE, "stream-1")
    assert (name, value.split("-")[1]) == (TRACEPARENT, TRACE)
    assert trace_metadata("", "stream-1") == trace_metadata("no trace", "stream-1") == []


EXPORTING = f"""
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pipestream.settings import Settings
from pipestream.telemetry import tracing

tracing.setup_tracing(Settings(otlp_endpoint="http://127.0.0.1:9"), "test")
kept = InMemorySpanExporter()
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(kept))
with tracing.span("a", {PARENT!r}) as first:
    with tracing.span("inner") as inner:
        pass
with tracing.span("b", tracing.header_of(first)) as second:
    tracing.record_error(second, ValueError("a secret of the document"))
with tracing.span("c", trace_id={TRACE!r}) as third:
    pass
with tracing.span("d") as fourth:
    pass
found = [[s.name, trace.format_trace_id(s.context.trace_id), s.parent and trace.format_span_id(s.parent.span_id),
          trace.format_span_id(s.context.span_id), s.status.description] for s in kept.get_finished_spans()]
print(json.dumps(found))
sys.stdout.flush()
import os; os._exit(0)  # the collector is not there, and its exporter would wait for it
"""


def test_spans_of_one_document_are_one_trace():
    done = subprocess.run([sys.executable, "-c", EXPORTING], capture_output=True, text=True, check=True, timeout=120)

    spans = {name: rest for name, *rest in json.loads(done.stdout)}
    assert [spans[name][0] for name in ("a", "inner", "b", "c")] == [TRACE] * 4
    assert spans["d"][0] != TRACE
    assert spans["a"][1] == "b7ad6b7169203331"
    assert spans["inner"][1] == spans["b"][1] == spans["a"][2]
    assert spans["b"][3] == "ValueError"
