"""Move a topic between batches, streams and sidecars while documents arrive: nothing is lost, repeated or left out."""

from __future__ import annotations

import sys
import threading
from contextlib import closing, contextmanager
from itertools import count

import pytest

from pipestream.drain.check import find_lag
from pipestream.kafka.broker import Broker
from pipestream.leases import TopicMode
from pipestream.settings import CONFIG_VARIABLE
from pipestream.stream.executors import RunnerExecutor
from pipestream_testing.length import by_length
from pipestream_testing.settings_file import write_settings
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, holders
from pipestream_testing.streams import QUICK, StreamThread, set_mode
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

MOVES = by_length(2, 10)
SPARK_MOVES = by_length(2, 10)


@contextmanager
def under_load(pipeline, topic, sent):
    """Send documents to both partitions all the time, and keep their ids in ``sent``."""
    is_over = threading.Event()

    def send():
        numbers = count()
        while not is_over.wait(0.02):
            number = next(numbers)
            documents = [f"{number % 2}-{number}-{each}" for each in range(3)]
            pipeline.send(topic, documents, partition=number % 2)
            sent.extend(documents)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def drain_in_a_batch(pipeline, topic, number, drain_when_free):
    set_mode(pipeline.settings, topic, TopicMode.BATCH)
    wait_until(lambda: find_lag(pipeline.settings, pipeline.graph, topic), "nothing was sent")
    assert drain_when_free(pipeline, f"run-{number}").status == "drained"


def stream_some(pipeline, topic, number, executor=None):
    """Stream until another fifty records are drained, then give the topic back."""
    before = sum(pipeline.group_offsets(topic).values())
    set_mode(pipeline.settings, topic, TopicMode.STREAMING)
    with StreamThread(pipeline, topic, run_id=f"stream-{number}", executor=executor) as stream:
        wait_until(
            lambda: sum(pipeline.group_offsets(topic).values()) > before + 50, "nothing was streamed", timeout_s=400
        )
        set_mode(pipeline.settings, topic, TopicMode.BATCH)
        assert "is in batch mode" in stream.join().reason


def let_a_sidecar_drain_some(pipeline, topic, number):
    """Give the topic to a sidecar until it has drained another fifty records, then take it back."""
    before = sum(pipeline.group_offsets(topic).values())
    set_mode(pipeline.settings, topic, TopicMode.STREAMING)
    sidecar = SidecarProcess(pipeline, f"sidecar-{number}")
    try:
        wait_until(
            lambda: sum(pipeline.group_offsets(topic).values()) > before + 50,
            "the sidecar drains nothing",
            timeout_s=400,
        )
        set_mode(pipeline.settings, topic, TopicMode.BATCH)
        wait_until(lambda: not holders(pipeline), "the sidecar does not give the topic back", timeout_s=120)
        assert sidecar.end() == 0, sidecar.log
    finally:
        sidecar.kill()


def test_a_topic_moved_between_batches_streams_and_sidecars_under_load_loses_and_repeats_nothing(
    make_pipeline, topic, check, drain_when_free
):
    pipeline = make_pipeline(chunk_records=20, reconcile_s=0.3, **QUICK)
    apply_streaming(pipeline, topic)
    sent = []
    with under_load(pipeline, topic, sent):
        for number in range(MOVES):
            drain_in_a_batch(pipeline, topic, number, drain_when_free)
            stream_some(pipeline, topic, number)
            let_a_sidecar_drain_some(pipeline, topic, number)
    drain_when_free(pipeline, "last")

    check(f"moved between batch, stream and sidecar {MOVES} times under load", pipeline, sent)
    entries = pipeline.entries(topic)
    assert sum(entry.tally.records for entry in entries) == len(sent)
    assert {entry.run_id.partition("-")[0] for entry in entries} >= {"run", "stream", "sidecar"}


@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_moved_between_batches_spark_and_sidecars_under_load_loses_and_repeats_nothing(
    make_pipeline, topic, check, drain_when_free, config_file, monkeypatch
):
    from pipestream_spark.runner import SparkRunner
    from pipestream_spark.warm_session import WarmSession

    pipeline = make_pipeline(chunk_records=20, reconcile_s=0.3, **QUICK)
    apply_streaming(pipeline, topic)
    write_settings(config_file, pipeline.settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(config_file))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    sent = []
    with closing(WarmSession("moved")) as session, under_load(pipeline, topic, sent):
        session.find()
        for number in range(SPARK_MOVES):
            runner = SparkRunner("moved", session.find)
            on_spark = RunnerExecutor(pipeline.settings, runner, runner.cancel, Broker(pipeline.settings))
            drain_in_a_batch(pipeline, topic, number, drain_when_free)
            stream_some(pipeline, topic, f"spark-{number}", on_spark)
            let_a_sidecar_drain_some(pipeline, topic, number)
    drain_when_free(pipeline, "last")

    check(f"moved between batch, Spark and sidecar {SPARK_MOVES} times under load", pipeline, sent)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(sent)
