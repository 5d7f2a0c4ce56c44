"""How long a document takes from its publication to the committed output, at a low rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import OFFSET_END, TopicPartition

from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import idempotent_producer, range_consumer
from pipestream.settings import Settings
from pipestream.wire import PipeStream
from pipestream_testing.waiting import wait_until

_START_S = 400.0


@contextmanager
def _watching(settings: Settings, topic: str) -> Iterator[dict[str, list[float]]]:
    """Yield when each document was seen in a topic by a reader of committed records, by its key."""
    seen: dict[str, list[float]] = {}
    is_over = threading.Event()
    is_ready = threading.Event()

    def read() -> None:
        with closing(range_consumer(settings, "latency")) as consumer:
            partitions = Broker(settings).identify(topic).partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in partitions])
            while not is_over.is_set():
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    seen.setdefault(message.key().decode(), []).append(time.monotonic())
                elif message is not None:
                    is_ready.set()  # at the end of a partition: the reader is in place

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert is_ready.wait(120)
        yield seen
    finally:
        is_over.set()
        thread.join()


def measure_latency(
    settings: Settings, topic: str, output: str, *, documents: int, pause_s: float, warm_up: int = 5
) -> list[float]:
    """Publish documents one by one, check that each comes out once, and return how long each took, in seconds.

    :param warm_up: how many go before, one after the other, and do not count.
    """
    # One producer for all, as a publisher has: starting one takes longer than what is measured.
    producer = idempotent_producer(settings)
    sent: dict[str, float] = {}
    with _watching(settings, output) as seen:
        for number in range(warm_up + documents):
            stream = PipeStream()
            stream.document.doc_id = stream.document.search_metadata.title = f"doc-{number}"
            sent[f"doc-{number}"] = time.monotonic()
            producer.produce(topic, stream.SerializeToString(), key=f"doc-{number}".encode(), partition=number % 2)
            producer.flush(60)
            if number < warm_up:
                wait_until(lambda: len(seen) == len(sent), "it did not come out", timeout_s=_START_S)
            time.sleep(pause_s)
        wait_until(lambda: len(seen) == len(sent), "not all came out")
    assert all(len(times) == 1 for times in seen.values()), "a document came out twice"
    return [seen[key][0] - sent[key] for key in list(sent)[warm_up:]]
