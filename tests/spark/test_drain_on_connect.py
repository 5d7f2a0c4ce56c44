"""Drains on a Spark Connect server: the stack's own, on its cluster."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import closing
from dataclasses import replace

import psutil
import pytest

from pipestream import faults
from pipestream.drain.report import read_outcome
from pipestream.errors import SparkRefused
from pipestream.leases import open_lease_store
from pipestream.rpc.spark_connect import connect_place
from pipestream_spark.connect import open_session
from pipestream_testing.drains import DrainProcess, Gate
from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.stack, pytest.mark.spark]

# Part of the command line of the executors of a Spark application that asked for 512 MB.
DRAINS = "-Xmx512M"


@pytest.fixture
def pipeline(pipeline, spark_connect):
    """The pipeline whose drains must use the server."""
    assert spark_connect.pid
    return Pipeline(pipeline.settings.model_copy(update={"spark_mode": "connect"}), pipeline.graph_file)


@pytest.fixture
def start(pipeline):
    """Start a drain in a process of its own; it ends with the test at the latest."""
    started = []

    def start(topic, run_id, fault="", of=pipeline):
        started.append(DrainProcess(of, topic, run_id, fault, program="connect_drain"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def outcome(pipeline, run_id):
    return read_outcome(pipeline.graph_file.with_name(f"{run_id}.outcome.json")).to_fields()


def test_a_drain_on_a_connect_server_delivers_every_document_once_without_a_jvm_of_its_own(pipeline, unique, start):
    topic = f"intake.{unique}"
    pipeline.send(topic, [f"a{n}" for n in range(40)], partition=0)
    pipeline.send(topic, [f"b{n}" for n in range(60)], partition=1)

    drain = start(topic, "run-1")

    assert drain.wait() == 0, drain.log
    assert "runs on the Spark Connect server" in drain.log
    told = outcome(pipeline, "run-1")
    assert (told["status"], told["ranges"], told["records"]) == ("drained", 2, 100)
    assert sorted(pipeline.doc_ids(f"pipestream.{unique}.second").values()) == [1] * 100
    pipeline.check_ledger_tiles(topic)
    token = pipeline.settings.spark_connect_token.get_secret_value()
    assert token not in drain.log


def test_a_short_drain_does_not_wait_for_a_long_one(pipeline, unique, start, tmp_path):
    gate = Gate(tmp_path / "gate")
    long, short = f"intake.{unique}", f"pipestream.{unique}.second"
    pipeline.send(long, ["a"], partition=0)
    pipeline.send(long, ["b"], partition=1)
    first = start(long, "before")
    assert first.wait() == 0, first.log
    pipeline.send(long, ["c"], partition=0)
    pipeline.send(long, ["d"], partition=1)

    held = start(long, "long", gate.at(faults.CHUNK_PROCESSED))
    held.wait_for(gate)
    quick = start(short, "short")

    assert quick.wait() == 0, quick.log
    assert outcome(pipeline, "short")["records"] == 2
    assert held.is_running()
    gate.open()
    assert held.wait() == 0, held.log
    assert pipeline.doc_ids(short) == Counter("abcd")
    pipeline.check_ledger_tiles(long)


def test_a_drain_that_is_asked_to_end_cancels_its_tasks_and_frees_its_lease(pipeline, unique, start, tmp_path):
    topic = f"intake.{unique}"
    gate = Gate(tmp_path / "gate")
    pipeline.send(topic, ["a", "b"])
    held = start(topic, "run-1", gate.at(faults.CHUNK_PROCESSED))
    held.wait_for(gate)

    held.send_signal(signal.SIGTERM)

    assert held.wait() == 128 + signal.SIGTERM, held.log
    with closing(open_lease_store(pipeline.settings)) as leases:
        assert {slot.holder for slot in leases.assignments()} == {""}
    again = start(topic, "run-2")
    assert again.wait() == 0, again.log
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == Counter("ab")
    pipeline.check_ledger_tiles(topic)


def test_a_client_with_another_token_is_refused_and_the_server_tells_nothing(pipeline):
    place = connect_place(pipeline.settings)
    place.check()

    with pytest.raises(SparkRefused) as refused:
        open_session(replace(place, token="another"))

    assert not refused.value.transient
    assert place.token not in str(refused.value)


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_many_short_drains_leave_no_session_daemon_or_memory_behind(
    pipeline, unique, start, stack, spark_connect, count
):
    topic = f"intake.{unique}"
    sizes = []
    for number in range(count):
        pipeline.send(topic, [f"d{number}"])
        drain = start(topic, f"run-{number}")
        assert drain.wait() == 0, drain.log
        sizes.append(measure(stack, spark_connect))

    first, last = sizes[0], sizes[-1]
    # The first drain may have used one of the two executors only. With a session each, every drain would add a daemon.
    assert last["daemons"] <= first["daemons"] + 1
    # Those of the last drain may still be ending.
    assert last["forked"] <= 4
    # The JVM's heap grows until it is collected. It is limited to 1 GB, of 1.5 GB at most in all.
    assert last["jvm_mb"] < 1_500
    assert len(pipeline.doc_ids(f"pipestream.{unique}.second")) == count
    pipeline.check_ledger_tiles(topic)


def measure(stack, server):
    """Count the Python processes of the server's executors, and measure the server's memory."""
    workers = [psutil.Process(stack.server(f"spark-worker-{number}").pid) for number in (1, 2)]
    children = [each for worker in workers for each in worker.children() if each.status() != psutil.STATUS_ZOMBIE]
    executors = [each for each in children if DRAINS in each.cmdline()]
    assert executors, "the server has no executors"
    daemons = [each for executor in executors for each in executor.children()]
    forked = [each for daemon in daemons for each in daemon.children()]
    jvm_mb = psutil.Process(server.pid).memory_info().rss / 1e6
    return {"daemons": len(daemons), "forked": len(forked), "jvm_mb": jvm_mb}
