"""Kill the client of a Spark Connect server, or the server itself, in the middle of a drain, or close its session."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from pipestream import faults
from pipestream.local import Stack, load_spec
from pipestream.rpc.spark_connect import connect_place
from pipestream_spark.connect import open_session, session_id
from pipestream_testing.drains import DrainProcess
from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.stack, pytest.mark.spark]


@pytest.fixture(scope="module")
def server(tmp_path_factory, stack):
    """A Spark Connect server of these tests' own, to be killed."""
    assert stack
    spec = load_spec(profile="embedded", folder=tmp_path_factory.mktemp("connect"), free_ports=True)
    with Stack(spec).running(names=["spark-connect"]) as own:
        yield own


@pytest.fixture
def on_connect(make_pipeline, server):
    """The pipeline, with drains on that server."""
    own = server.settings()
    return make_pipeline(
        spark_mode="connect",
        spark_connect_url=own.spark_connect_url,
        spark_connect_token=own.spark_connect_token,
    )


@pytest.fixture
def start(on_connect, topic):
    started = []

    def start(run_id, fault=""):
        # Only the lease of a run that is to die is waited for. The others go through however busy the machine is.
        changes = {"lease_ttl_s": 10.0} if fault else {}
        pipeline = Pipeline(on_connect.settings.model_copy(update=changes), on_connect.graph_file)
        started.append(DrainProcess(pipeline, topic, run_id, fault, program="connect_drain"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


# The first chunk of each partition is committed, and the second is in work.
@pytest.mark.parametrize("killed", ["client", "server"])
def test_after_a_kill_in_the_middle_of_a_drain_the_next_run_on_connect_recovers(
    on_connect, server, documents, fill, check, topic, start, gate, killed
):
    fill(on_connect, documents)
    drain = start("run-1", gate.at(faults.CHUNK_PROCESSED, nth=2))
    drain.wait_for(gate)
    if killed == "client":
        drain.kill()
    else:
        server.server("spark-connect").kill()
        assert drain.wait() == 1, drain.log
        server.server("spark-connect").start()
    died_at = time.monotonic()
    # The workers of the client's query are still there, and continue after the next run has begun.
    gate.open()

    drain_until_done(start)

    check(f"SIGKILL of the Connect {killed}", on_connect, documents, died_at)
    assert sum(entry.tally.records for entry in on_connect.entries(topic)) == len(documents)


def test_after_somebody_closed_the_session_drains_use_the_next_one(on_connect, topic, start):
    on_connect.send(topic, ["a"])
    session = open_session(connect_place(on_connect.settings))
    closed = session.session_id
    session.stop()

    drain = start("run-1")

    assert drain.wait() == 0, drain.log
    now = open_session(connect_place(on_connect.settings))
    with closing(now.client):
        ids = [session_id(generation) for generation in range(20)]
        assert ids.index(now.session_id) == ids.index(closed) + 1


def drain_until_done(start, deadline_s=240):
    """Drain on the server until the lease of the run that died has expired and nothing waits."""
    deadline = time.monotonic() + deadline_s
    for number in range(2, 100):
        again = start(f"run-{number}")
        assert again.wait() == 0, again.log
        if "'status': 'skipped'" not in again.log:
            return
        assert time.monotonic() < deadline, again.log
