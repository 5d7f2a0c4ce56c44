"""Cancelling a runner stops it whenever that comes: no task may begin after its lease was lost."""

from __future__ import annotations

import sys
import threading
from base64 import b64encode

import pytest
from pyspark import SparkContext

from pipestream.errors import TasksFailed
from pipestream.graph.load import load_graph
from pipestream.graph.proto import to_binary
from pipestream.settings import CONFIG_VARIABLE, Settings
from pipestream_spark.runner import SparkRunner
from pipestream_testing.cancelling import CANCELLED, LOST, CancellingTask
from pipestream_testing.made import make_task
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.spark

# Longer than a test may take: a task that is not cancelled is waited for until the test fails.
BROKER_TIMEOUT_S = 900


@pytest.fixture(scope="module", autouse=True)
def _no_jvm_left_behind():
    yield
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the sign for Spark's JVM to end
        gateway.proc.wait(120)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def runner(monkeypatch, tmp_path):
    """A runner on a Spark of this process, whose tasks ask a broker that never answers."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    config = tmp_path / "settings.toml"
    write_settings(
        config, Settings(kafka_bootstrap="127.0.0.1:1", kafka_timeout_s=BROKER_TIMEOUT_S, store_uri=tmp_path.as_uri())
    )
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[1] --conf spark.ui.enabled=false pyspark-shell")
    made = SparkRunner("test")
    yield made
    made.close()


@pytest.fixture
def task(graph_text, unique, tmp_path):
    file = tmp_path / "graph.yaml"
    file.write_text(graph_text)
    topic = f"intake.{unique}"
    return make_task(
        topic,
        "first",
        datasource_id=unique,
        offsets=((0, 0, 10),),
        transactional_ids=(f"g/{topic}/0",),
        graph=b64encode(to_binary(load_graph(file))).decode(),
    )


one_slot_or_all = pytest.mark.parametrize(
    "cancel", [lambda runner: runner.cancel(LOST), SparkRunner.cancel_all], ids=["one slot", "all slots"]
)


@one_slot_or_all
def test_cancelled_before_it_starts_it_opens_no_session(runner, task, monkeypatch, cancel):
    monkeypatch.setattr(runner, "_open_session", lambda: pytest.fail("a session was opened"))
    cancel(runner)

    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([task])


def test_cancelled_while_the_session_opens_it_makes_no_job(runner, task, monkeypatch):
    open_session = runner._open_session

    def open_while_cancelled():
        runner.cancel(LOST)
        return open_session()

    monkeypatch.setattr(runner, "_open_session", open_while_cancelled)

    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([task])

    assert runner._session.sparkContext.statusTracker().getJobIdsForGroup(runner.job_group(0)) == []


def test_cancelled_between_session_and_job_it_runs_no_task(runner, task):
    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([CancellingTask(runner, task)])


@pytest.mark.parametrize(
    "cancel",
    [
        pytest.param(lambda runner: runner.cancel(LOST), id="one slot"),
        # In every test run, the runner on Spark Connect shows it.
        pytest.param(SparkRunner.cancel_all, id="all slots", marks=pytest.mark.slow),
    ],
)
def test_cancelled_while_its_tasks_run_it_ends_at_once(runner, task, cancel):
    def is_running():
        return runner._session is not None and runner._session.sparkContext.statusTracker().getActiveStageIds()

    def cancel_when_running():
        wait_until(is_running, "no task ran", timeout_s=400)
        cancel(runner)

    canceller = threading.Thread(target=cancel_when_running)
    canceller.start()
    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([task])

    canceller.join()
