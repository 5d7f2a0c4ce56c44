"""How long a document takes through a sidecar at a low rate: from its publication to the committed output."""

from __future__ import annotations

import statistics
import time
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from pipestream.kafka.clients import idempotent_producer, range_consumer
from pipestream.wire import PipeStream
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.sidecars import SidecarProcess, apply_streaming
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

DOCUMENTS = 60
WARM_UP = 5
EVERY_S = 0.2


def test_latency_of_a_sidecar_at_a_low_rate(pipeline: Pipeline, unique: str) -> None:
    intake, output = f"intake.{unique}", f"pipestream.{unique}.second"
    apply_streaming(pipeline, intake)
    sidecar = SidecarProcess(pipeline, "bench")
    try:
        sidecar.wait_ready()
        wait_until(lambda: sidecar.statuses() == {intake: "ACTIVE"})
        latencies = _measure(pipeline, intake, output)
    finally:
        sidecar.kill()

    quantiles = statistics.quantiles(latencies, n=100)
    print(
        f"\npublish to committed output, one document every {EVERY_S:g} s, {len(latencies)} documents: "
        f"p50 {statistics.median(latencies) * 1000:.0f} ms, p90 {quantiles[89] * 1000:.0f} ms, "
        f"worst {max(latencies) * 1000:.0f} ms"
    )
    assert statistics.median(latencies) < 0.5


def _measure(pipeline: Pipeline, intake: str, output: str) -> list[float]:
    """Send documents one by one, and return how long each took to show in the output for a committed reader."""
    latencies = []
    # One producer for all, as a publisher has: starting one takes longer than what is measured.
    producer = idempotent_producer(pipeline.settings)
    with closing(range_consumer(pipeline.settings, "bench-reader")) as consumer:
        consumer.assign([TopicPartition(output, partition, OFFSET_END) for partition in (0, 1)])
        while consumer.poll(1.0) is not None:
            pass  # the reader is at the end of both partitions
        for number in range(DOCUMENTS + WARM_UP):
            stream = PipeStream()
            stream.document.doc_id = stream.document.search_metadata.title = f"doc-{number}"
            sent_at = time.monotonic()
            producer.produce(intake, value=stream.SerializeToString(), key=b"doc", partition=number % 2)
            producer.flush(30)
            while (message := consumer.poll(30)) is None or message.error() is not None:
                pass
            latencies.append(time.monotonic() - sent_at)
            time.sleep(max(0.0, EVERY_S - latencies[-1]))
    return latencies[WARM_UP:]
