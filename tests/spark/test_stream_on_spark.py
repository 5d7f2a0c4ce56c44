"""The streaming drain as a job of its own: one Spark session for every streaming topic, until it is asked to end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from pipestream import apply_graph, set_graph_mode
from pipestream.leases import open_lease_store
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings
from pipestream_testing.streams import QUICK
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.spark]


@pytest.fixture
def pipeline(settings, unique, tmp_path, graph_text):
    """The small graph, applied, with every topic in streaming mode."""
    file = tmp_path / f"{unique}.yaml"
    file.write_text(graph_text)
    quick = {**QUICK, "reconcile_s": 0.5, "spark_master": "local[2]"}
    made = Pipeline(settings.model_copy(update=quick), file)
    apply_graph(made.graph, settings=made.settings)
    return made


@pytest.fixture
def start_job(pipeline, stack, tmp_path, request):
    """Start the job; it ends with the test at the latest."""
    config = tmp_path / "stream.toml"
    write_settings(config, pipeline.settings)
    script = request.config.rootpath / "spark_jobs" / "stream.py"
    environment = {**stack.environment(), CONFIG_VARIABLE: str(config), "PYSPARK_PYTHON": sys.executable}
    jobs = []

    def start():
        log = (tmp_path / f"job-{len(jobs)}.log").open("w")
        job = subprocess.Popen(
            [sys.executable, script], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        jobs.append((job, log))
        return job

    yield start
    for job, log in jobs:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        log.close()


def received(job, topic):
    """Return how many records of a topic the metrics of a job have."""
    (address,) = re.findall(r"/metrics and /health at (\S+)", Path(f"/proc/{job.pid}/fd/2").read_text())
    page = urlopen(f"http://{address}/metrics", timeout=60).read().decode()
    line = f'pipestream_messages_received_total{{queue="{topic}",transport="kafka"}} '
    return sum(float(each.removeprefix(line)) for each in page.splitlines() if each.startswith(line))


def kill_spark(job):
    """Kill the JVM of a job, as the kernel would for its memory."""
    for process in psutil.Process(job.pid).children(recursive=True):
        if process.is_running() and "java" in process.name():
            process.kill()


@pytest.mark.parametrize("spark_dies", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_job_streams_every_topic_even_if_spark_dies_and_ends_cleanly(pipeline, start_job, unique, spark_dies):
    intake, second, end = f"intake.{unique}", f"pipestream.{unique}.second", f"pipestream.{unique}.happy-end"
    set_graph_mode(pipeline.graph, "streaming", settings=pipeline.settings)
    job = start_job()
    pipeline.send(intake, ["a", "b"])
    wait_until(lambda: len(pipeline.doc_ids(end)) == 2, "they did not come through both topics", timeout_s=400)

    if spark_dies:
        kill_spark(job)
    pipeline.send(intake, ["c"])
    wait_until(lambda: len(pipeline.doc_ids(end)) == 3, "nothing more came through", timeout_s=400)
    # Counted by its workers. Of a try that died with its Spark the counts are lost.
    wait_until(lambda: received(job, intake) >= 1 + 2 * (not spark_dies), "its metrics do not show the documents")
    job.send_signal(signal.SIGTERM)

    assert job.wait(180) == 0
    assert pipeline.doc_ids(end) == Counter(["a", "b", "c"])
    for topic in (intake, second):
        pipeline.check_ledger_tiles(topic)
    with closing(open_lease_store(pipeline.settings)) as leases:
        assert {slot.holder for slot in leases.assignments()} == {""}
