"""Drain 100 documents from each of some topics: on a Spark Connect server, in one session, and by cold submits.

All drain the same topics, each as a graph of its own. On the Connect server and by spark-submit every topic is a
process of its own, from its start to its end, as Airflow starts it. What came out is checked before a time is reported.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from pipestream.rpc.spark_connect import connect_place
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.bench import sized
from pipestream_testing.courses import INLINE, check_outputs, make_pipeline, send_inline
from pipestream_testing.settings_file import write_settings
from pipestream_testing.submit import connect_drain, submit_drain
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.spark]

TOPICS = sized(5, 3)
DOCUMENTS = 100
# A cold submit takes as long as all other topics together.
COLD_TOPICS = sized(TOPICS, 1)
PARTITIONS = 2
UNIT = "s a topic"


def graph_of(unique: str) -> str:
    """Return a graph of as many lines as topics: in1 to out1, in2 to out2."""
    numbers = range(TOPICS)
    sources = [
        f"  - {{id: {unique}{n}, account: acme, entry: in{n}, partitions: {PARTITIONS}, {INLINE}}}" for n in numbers
    ]
    nodes = [f"  - {{id: in{n}, type: connector}}\n  - {{id: out{n}, type: connector}}" for n in numbers]
    edges = [f"  - {{from: in{n}, to: out{n}}}" for n in numbers]
    parts = ("datasources:", *sources, "nodes:", *nodes, "edges:", *edges)
    return "\n".join(("graph: NAME", "cluster: NAME", *parts)) + "\n"


@pytest.fixture
def connect_settings(session_settings, tmp_path):
    """Settings for a Spark Connect server, which runs as long as the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = session_settings.model_copy(
        update={"spark_connect_url": f"sc://127.0.0.1:{port}", "spark_mode": "connect", "spark_master": "local[2]"}
    )
    config = tmp_path / "connect.toml"
    write_settings(config, settings)
    command = [sys.executable, "-m", "pipestream.cli.main", "spark", "serve", "--port", str(port)]
    log = tmp_path / "connect.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            env={**os.environ, CONFIG_VARIABLE: str(config)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def is_up() -> bool:
        assert server.poll() is None, log.read_text()[-4_000:]
        try:
            connect_place(settings).check(timeout_s=5)
        except Exception:
            return False
        return True

    try:
        wait_until(is_up, "the Spark Connect server does not answer", poll_s=0.2)
        yield settings
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_small_topics_on_a_warm_spark(session_settings, connect_settings, stack, unique, tmp_path, spark, scenario):
    from pipestream_spark.runner import SparkRunner

    graph = graph_of(unique)
    config = tmp_path / "submit.toml"
    write_settings(config, session_settings)
    environment = {**stack.environment(), CONFIG_VARIABLE: str(config)}
    connect_environment = {**environment, CONFIG_VARIABLE: str(tmp_path / "connect.toml")}
    runner = SparkRunner("small topics", spark.find)

    def submit(pipeline, topic, run_id):
        done = submit_drain(pipeline, topic, run_id, environment, master="local[2]")
        assert done.exit_code == 0, done.log[-4_000:]

    def connect(pipeline, topic, run_id):
        done = connect_drain(pipeline, topic, run_id, connect_environment)
        assert done.exit_code == 0, done.log[-4_000:]

    contenders = {
        "Spark Connect": (connect, TOPICS),
        "one session": (lambda pipeline, topic, run_id: pipeline.run(topic, run_id, runner=runner), TOPICS),
        "cold submits": (submit, COLD_TOPICS),
    }
    for number in range(TOPICS):
        make_pipeline(session_settings, tmp_path, f"{unique}fill", graph)
        send_inline(session_settings, f"intake.{unique}{number}", DOCUMENTS, partitions=PARTITIONS, size_bytes=100)
    # The first query of a server and of a session compiles.
    warm_up = make_pipeline(session_settings, tmp_path, f"{unique}warm", graph)
    connect(warm_up, f"intake.{unique}0", "warm-0")
    warm_up.run(f"intake.{unique}1", "warm-1", runner=runner)
    made = scenario("warm-spark", f"Drain {DOCUMENTS} documents from each of {TOPICS} topics on Spark")
    for index, (name, (drain, topics)) in enumerate(contenders.items()):
        pipeline = make_pipeline(session_settings, tmp_path, f"{unique}c{index}", graph)
        taken = []
        for number in range(topics):
            started = time.perf_counter()
            drain(pipeline, f"intake.{unique}{number}", f"run-{number}")
            taken.append(time.perf_counter() - started)
            output = f"pipestream.{pipeline.graph.graph_id}.out{number}"
            check_outputs(session_settings, output, DOCUMENTS, partitions=PARTITIONS)
            pipeline.check_ledger_tiles(f"intake.{unique}{number}")
        made.add(name, UNIT, *taken, is_rival=name == "cold submits")
    made.want_of("seconds a topic, warm", "Spark Connect", at_most=3)
    made.want_of("seconds a topic, cold", "cold submits", at_most=11)
    made.want_ratio("of a cold submit, warm", "Spark Connect", "cold submits", at_most=1)
