from __future__ import annotations

import uuid

import pytest
from prometheus_client import REGISTRY

from pipestream.errors import (
    DocumentMissing,
    HopsExceeded,
    ModuleFailed,
    ModuleTimeout,
    ModuleUnavailable,
    RecordInvalid,
    TerminalError,
)
from pipestream.telemetry.meter import GatheringMeter, PrometheusMeter


@pytest.fixture
def graph():
    return f"g{uuid.uuid4().hex[:8]}"


def value(name, **labels):
    return REGISTRY.get_sample_value(f"pipestream_{name}", labels)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModuleTimeout("took longer"), "timeout"),
        (ModuleUnavailable("gone"), "unavailable"),
        (ModuleFailed("raised"), "execution_error"),
        (TerminalError("a bug"), "internal_error"),
    ],
)
def test_a_failed_call_of_a_module_is_counted_by_its_kind(graph, error, kind):
    PrometheusMeter(graph).module_called(graph, 0.2, error)

    assert value("runtime_errors_total", queue=graph, error_type=kind) == 1
    assert value("runtime_execution_duration_seconds_count", queue=graph) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RecordInvalid("no stream"), "parse_error"),
        (DocumentMissing("gone"), "hydration_error"),
        (HopsExceeded("100"), "routing_error"),
        (ModuleTimeout("took longer"), "runtime_error"),
        (ModuleUnavailable("gone"), "transport_error"),
    ],
)
def test_a_failed_stream_is_counted_by_its_reason(graph, error, reason):
    PrometheusMeter(graph).failed(graph, error)

    assert value("messages_failed_total", queue=graph, reason=reason) == 1


def test_a_step_is_timed_also_when_it_fails(graph):
    meter = PrometheusMeter(graph)

    with pytest.raises(ValueError, match="no"), meter.timed("hydrate"):
        raise ValueError("no")

    assert value("engine_hydration_duration_seconds_count", graph=graph) == 1


def test_a_stream_along_an_edge_is_counted_for_its_topic_and_for_the_edge(graph):
    meter = PrometheusMeter(graph)

    meter.sent(f"pipestream.main.{graph}", "routing", "e1", [100])
    meter.sent(f"pipestream.main.{graph}", "happy_end", "", [100])

    assert value("messages_sent_total", destination_queue=f"pipestream.main.{graph}", message_type="routing") == 1
    assert value("messages_sent_total", destination_queue=f"pipestream.main.{graph}", message_type="happy_end") == 1
    assert value("engine_routing_dispatched_total", graph=graph, edge="e1") == 1


def samples(prefix):
    """Return all series of the metrics whose names begin so, without the times of their creation."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name.startswith(prefix) and not sample.name.endswith("_created")
    }


def test_what_is_gathered_counts_as_if_each_was_counted_when_it_happened(graph):
    def report(meter, queue):
        for size in (0, 256, 257, 5_000, 100_000_000):
            meter.received(queue, "kafka", [size, size + 1])
            meter.processed(queue, "success", [size / 1_000_000])
            meter.sent(queue, "routing", "e1", [size])
            meter.sent(queue, "happy_end", "", [size])
            meter.ended(succeeded=size > 256)

    def told(queue):
        found = {name: value for name, value in samples("pipestream_").items() if queue in str(name)}
        return {str(name).replace(queue, "QUEUE"): value for name, value in found.items()}

    sizes_before = samples("pipestream_envelope_size_bytes")
    report(PrometheusMeter(f"{graph}a"), f"{graph}a")
    sizes_once = samples("pipestream_envelope_size_bytes")
    gathering = GatheringMeter(PrometheusMeter(f"{graph}b"))
    report(gathering, f"{graph}b")
    gathering.flush()
    sizes_twice = samples("pipestream_envelope_size_bytes")

    assert told(f"{graph}a") == pytest.approx(told(f"{graph}b"))
    for name, value in sizes_twice.items():
        assert value - sizes_once[name] == sizes_once[name] - sizes_before.get(name, 0)


def test_what_is_gathered_is_counted_once(graph):
    gathering = GatheringMeter(PrometheusMeter(graph))
    gathering.ended(succeeded=True)

    assert value("engine_doc_success_total", graph=graph) is None
    gathering.flush()
    gathering.flush()

    assert value("engine_doc_success_total", graph=graph) == 1
