"""Kill a stream whose tasks stay for a window: at its points, and on Spark its driver and its Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pipestream import apply_graph, faults
from pipestream.leases import TopicMode
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.drains import DrainProcess
from pipestream_testing.length import by_length
from pipestream_testing.settings_file import write_settings
from pipestream_testing.streams import QUICK, set_mode
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

# More than all documents: little waits, so every task has a window.
ROOMY = 1_000
POINTS = by_length([faults.CHUNK_COMMITTED], faults.STREAM_POINTS)


@pytest.fixture
def pipeline(make_pipeline, topic):
    made = make_pipeline(chunk_records=ROOMY, lease_ttl_s=10.0, **QUICK, reconcile_s=0.5, spark_master="local[2,4]")
    set_mode(made.settings, topic, TopicMode.STREAMING)
    return made


def feed(pipeline, topic, documents, is_enough):
    """Send documents a few at a time, until enough has happened; return how many were sent."""
    for sent, document in enumerate(documents):
        if is_enough():
            return sent
        pipeline.send(topic, [document], partition=int(document[0]))
    return len(documents)


@pytest.mark.parametrize("point", POINTS)
def test_a_stream_killed_in_a_window_loses_and_repeats_nothing_and_no_count(
    pipeline, topic, documents, fill, check, stream_to_the_end, point
):
    fill(pipeline, documents[:1])
    nth = 1 if point == faults.STREAM_RECONCILED else 2
    killed = DrainProcess(pipeline, topic, "stream-1", f"{point}=kill@{nth}", program="window_process")
    try:
        sent = 1 + feed(pipeline, topic, documents[1:], lambda: not killed.is_running())
        assert killed.wait() == -signal.SIGKILL, killed.log
    finally:
        killed.kill()
    died_at = time.monotonic()
    fill(pipeline, documents[sent:])

    stream_to_the_end()

    check(f"SIGKILL of a stream with windows at {point}", pipeline, documents, died_at)
    entries = pipeline.entries(topic)
    assert sum(entry.tally.records for entry in entries) == len(documents), entries


@pytest.fixture
def start_job(pipeline, stack, tmp_path, request):
    """Start the streaming drain on Spark, with variables that say what goes wrong; it ends with the test."""
    apply_graph(pipeline.graph, settings=pipeline.settings)
    config = tmp_path / "stream.toml"
    write_settings(config, pipeline.settings)
    script = request.config.rootpath / "spark_jobs" / "stream.py"
    environment = {**stack.environment(), CONFIG_VARIABLE: str(config), "PYSPARK_PYTHON": sys.executable}
    log = (tmp_path / "job.log").open("w")
    jobs = []

    def start(variables):
        job = subprocess.Popen(
            [sys.executable, script], env={**environment, **variables}, stdout=log, stderr=log, start_new_session=True
        )
        jobs.append(job)
        return job

    yield start
    for job in jobs:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    log.close()


@pytest.mark.spark
def test_a_worker_that_outlives_its_killed_spark_driver_commits_nothing_more(
    pipeline, topic, documents, fill, check, start_job, stream_to_the_end, gate
):
    fill(pipeline, documents)
    job = start_job({faults.VARIABLE: gate.at(faults.CHUNK_PRODUCED)})
    wait_until(gate.is_reached, "no worker got to its commit", timeout_s=400)
    processes = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
    job.kill()
    job.wait()
    died_at = time.monotonic()

    stream_to_the_end()
    gate.open()
    psutil.wait_procs(processes, timeout=120)

    check("SIGKILL of the driver of a stream on Spark", pipeline, documents, died_at)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(documents)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("point", [faults.CHUNK_PROCESSED, faults.CHUNK_PRODUCED, faults.CHUNK_COMMITTED])
def test_a_killed_worker_of_a_stream_on_spark_is_replaced(
    pipeline, topic, documents, fill, check, start_job, tmp_path, point
):
    marker = tmp_path / "killed"
    fill(pipeline, documents)
    job = start_job({faults.VARIABLE: f"{point}=kill", faults.ONCE_VARIABLE: str(marker)})
    wait_until(marker.exists, "no worker was killed", timeout_s=400)
    died_at = time.monotonic()

    wait_until(
        lambda: sum(pipeline.group_offsets(topic).values()) == len(documents), "not all were drained", timeout_s=400
    )
    job.send_signal(signal.SIGTERM)

    assert job.wait(180) == 0
    check("SIGKILL of a worker of a stream on Spark", pipeline, documents, died_at)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(documents)
