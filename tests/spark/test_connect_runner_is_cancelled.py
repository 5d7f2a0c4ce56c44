"""Cancelling a runner on a Spark Connect server stops it whenever that comes."""

from __future__ import annotations

import threading
from base64 import b64encode

import pytest

from pipestream.errors import TasksFailed
from pipestream.graph.load import load_graph
from pipestream.graph.proto import to_binary
from pipestream.rpc.spark_connect import connect_place
from pipestream.settings import CONFIG_VARIABLE
from pipestream_spark.connect import open_session
from pipestream_spark.connect_runner import ConnectRunner
from pipestream_testing.cancelling import CANCELLED, LOST, CancellingTask
from pipestream_testing.made import make_task
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.spark]


@pytest.fixture
def runner(monkeypatch, tmp_path, settings, spark_connect):
    """A runner whose tasks ask a broker that never answers, for longer than a test may take."""
    assert spark_connect.pid
    config = tmp_path / "settings.toml"
    write_settings(config, settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:1", "kafka_timeout_s": 900.0}))
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    made = ConnectRunner(open_session(connect_place(settings)), settings)
    yield made
    made.close()


@pytest.fixture
def task(graph_text, unique, tmp_path):
    file = tmp_path / "graph.yaml"
    file.write_text(graph_text)
    return make_task(
        f"intake.{unique}",
        "first",
        datasource_id=unique,
        offsets=((0, 0, 10),),
        transactional_ids=(f"g/{unique}/0",),
        graph=b64encode(to_binary(load_graph(file))).decode(),
    )


def test_cancelled_before_it_starts_it_sends_no_query(runner, task):
    runner.cancel(LOST)

    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([task])


def test_cancelled_just_before_its_query_is_sent_it_ends_at_once(runner, task):
    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([CancellingTask(runner, task)])


def test_cancelled_while_its_query_runs_it_ends_at_once(runner, task):
    def cancel_when_running():
        wait_until(lambda: runner._running, "no query ran")
        runner.cancel_all()

    canceller = threading.Thread(target=cancel_when_running)
    canceller.start()
    with pytest.raises(TasksFailed, match=CANCELLED):
        runner([task])

    canceller.join()
