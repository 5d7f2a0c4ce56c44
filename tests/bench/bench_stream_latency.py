"""How long is it from publishing a document to its committed output, at a low rate? By a warm stream, and by Spark's.

Run one of them with ``make bench ARGS="-k warm"`` or ``-k spark``.
"""

from __future__ import annotations

import pytest

from pipestream.kafka.broker import Broker
from pipestream.leases import TopicMode
from pipestream.stream.executors import RunnerExecutor
from pipestream.stream.windows import Windows
from pipestream_testing.bench import sized
from pipestream_testing.courses import make_pipeline
from pipestream_testing.latency import measure_latency
from pipestream_testing.streams import StreamThread, set_mode

pytestmark = [pytest.mark.stack, pytest.mark.slow]

DOCUMENTS = sized(60, 10)
PAUSE_S = 0.3
# What the product promises, in seconds.
WARM_P50_S, SPARK_P50_S = 0.5, 1.5


def measure(pipeline, **options):
    name = pipeline.graph.graph_id
    topic = f"intake.{name}"
    set_mode(pipeline.settings, topic, TopicMode.STREAMING)
    with StreamThread(pipeline, topic, **options):
        return measure_latency(
            pipeline.settings, topic, f"pipestream.{name}.second", documents=DOCUMENTS, pause_s=PAUSE_S
        )


def report(made, contender, took, most_s):
    made.add(contender, "s", *took)
    made.want_of("seconds, p50", contender, at_most=most_s)


def test_a_warm_stream_has_a_document_out_in_half_a_second(pipeline, scenario):
    took = measure(pipeline)
    made = scenario("latency-warm-stream", f"Publish to committed output by a warm stream, one every {PAUSE_S:g} s")
    report(made, "pipestream, warm stream", took, WARM_P50_S)


@pytest.mark.spark
def test_a_stream_on_spark_has_a_document_out_in_one_and_a_half_seconds(
    session_settings, graph_text, unique, tmp_path, spark, scenario
):
    from pipestream_spark.runner import SparkRunner

    pipeline = make_pipeline(session_settings, tmp_path, unique, graph_text)
    runner = SparkRunner("latency", spark.find)
    windows = Windows(spark.find_most_windows)
    executor = RunnerExecutor(pipeline.settings, runner, runner.cancel, Broker(pipeline.settings), windows)
    took = measure(pipeline, executor=executor)
    made = scenario("latency-spark-stream", f"Publish to committed output by a Spark stream, one every {PAUSE_S:g} s")
    report(made, "pipestream, stream on Spark", took, SPARK_P50_S)
