"""How long is it from publishing a document to its committed output, at a low rate? By a warm stream, and by Spark's.

Run one of them with ``make bench ARGS="-k warm"`` or ``-k spark``.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import idempotent_producer, range_consumer
from pipestream.leases import TopicMode
from pipestream.settings import CONFIG_VARIABLE
from pipestream.stream.executors import RunnerExecutor
from pipestream.stream.windows import Windows
from pipestream.wire import PipeStream
from pipestream_testing.streams import StreamThread, set_mode
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

DOCUMENTS = 40
PAUSE_S = 0.3
WARM_UP = 5
# What the product promises, in seconds.
WARM_P50_S, SPARK_P50_S = 0.5, 1.5


@contextmanager
def watching(settings, topic):
    """Yield when each document was first seen in a topic by a reader of committed records, by its key."""
    seen: dict[str, float] = {}
    is_over = threading.Event()
    is_ready = threading.Event()

    def read():
        with closing(range_consumer(settings, "latency")) as consumer:
            partitions = Broker(settings).identify(topic).partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in partitions])
            while not is_over.is_set():
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    seen.setdefault(message.key().decode(), time.monotonic())
                elif message is not None:
                    is_ready.set()  # at the end of a partition: the reader is in place

    thread = threading.Thread(target=read)
    thread.start()
    assert is_ready.wait(120)
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def measure(pipeline, topic, output):
    """Publish documents one by one, and return how long each took to come out, in seconds and in order."""
    producer = idempotent_producer(pipeline.settings)
    sent: dict[str, float] = {}
    with watching(pipeline.settings, output) as seen:
        for number in range(DOCUMENTS):
            stream = PipeStream()
            stream.document.doc_id = stream.document.search_metadata.title = f"doc-{number}"
            sent[f"doc-{number}"] = time.monotonic()
            producer.produce(topic, stream.SerializeToString(), key=f"doc-{number}".encode(), partition=number % 2)
            producer.flush(60)
            if number < WARM_UP:
                wait_until(lambda: len(seen) == len(sent), "it did not come out", timeout_s=400)
            time.sleep(PAUSE_S)
        wait_until(lambda: len(seen) == len(sent), "not all came out")
    return [seen[key] - sent[key] for key in list(sent)[WARM_UP:]]


def report(name, took):
    cuts = statistics.quantiles(took, n=100)
    print(
        f"\n{name}, {len(took)} documents, one every {PAUSE_S:g} s: publish to committed output "
        f"p50 {cuts[49]:.3f} s, p90 {cuts[89]:.3f} s, p99 {cuts[98]:.3f} s, most {max(took):.3f} s"
    )
    return cuts[49]


def test_a_warm_stream_has_a_document_out_in_half_a_second(pipeline, unique):
    topic = f"intake.{unique}"
    set_mode(pipeline.settings, topic, TopicMode.STREAMING)
    with StreamThread(pipeline, topic):
        took = measure(pipeline, topic, f"pipestream.{unique}.second")

    assert report("warm stream", took) < WARM_P50_S


@pytest.mark.spark
def test_a_stream_on_spark_has_a_document_out_in_one_and_a_half_seconds(pipeline, unique, config_file, monkeypatch):
    from pipestream_spark.runner import SparkRunner
    from pipestream_spark.warm_session import WarmSession

    monkeypatch.setenv(CONFIG_VARIABLE, str(config_file))
    topic = f"intake.{unique}"
    set_mode(pipeline.settings, topic, TopicMode.STREAMING)
    with closing(WarmSession("latency")) as session:
        runner = SparkRunner("latency", session.find)
        windows = Windows(session.find_most_windows)
        executor = RunnerExecutor(pipeline.settings, runner, runner.cancel, Broker(pipeline.settings), windows)
        with StreamThread(pipeline, topic, executor=executor):
            took = measure(pipeline, topic, f"pipestream.{unique}.second")

    assert report("stream on Spark", took) < SPARK_P50_S
