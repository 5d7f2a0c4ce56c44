"""The operator with a Spark Connect server: the drain runs in the task's own process."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pipestream import faults
from pipestream.errors import SparkUnavailable
from pipestream.leases import open_lease_store
from pipestream.settings import CONFIG_VARIABLE
from pipestream_airflow.drain_operator import DrainOperator
from pipestream_testing.drains import Gate
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until


@pytest.fixture
def operator(pipeline, unique, monkeypatch, tmp_path, spark_connect):
    """The task of the pipeline's intake topic, with settings that allow the server only."""
    assert spark_connect.pid
    file = tmp_path / "settings.toml"
    write_settings(file, pipeline.settings.model_copy(update={"spark_mode": "connect"}))
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    return DrainOperator(task_id="drain", topic=f"intake.{unique}", graph_file=str(pipeline.graph_file))


@pytest.mark.stack
@pytest.mark.spark
def test_a_killed_task_cancels_its_tasks_on_the_server_and_frees_its_lease_and_the_retry_does_the_rest(
    operator, pipeline, unique, context, monkeypatch, tmp_path
):
    gate = Gate(tmp_path / "gate")
    pipeline.send(operator.topic, ["a", "b"])
    monkeypatch.setenv(faults.VARIABLE, gate.at(faults.CHUNK_PROCESSED))

    def kill() -> None:
        wait_until(gate.is_reached, "no range was drained", timeout_s=400)
        operator.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(AirflowException, match="they were cancelled"):
        operator.execute(context(topics=[operator.topic]))

    killer.join()
    with closing(open_lease_store(pipeline.settings)) as leases:
        assert {slot.holder for slot in leases.assignments()} == {""}
    monkeypatch.delenv(faults.VARIABLE)
    retry = DrainOperator(task_id="drain", topic=operator.topic, graph_file=operator.graph_file)
    report = retry.execute(context(topics=[operator.topic]))
    assert (report["status"], report["records"]) == ("drained", 2)
    assert pipeline.settings.spark_connect_token.get_secret_value() not in str(report)
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == Counter("ab")
    pipeline.check_ledger_tiles(operator.topic)


@pytest.mark.usefixtures("nothing_against_it")
def test_with_connect_alone_a_task_with_options_of_spark_submit_fails_for_good(task, context, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_SPARK_MODE", "connect")
    task.executor_memory = "2g"

    with pytest.raises(AirflowFailException, match="options of spark-submit: executor_memory"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_with_connect_alone_a_server_that_does_not_answer_is_tried_again(task, context, monkeypatch, tmp_path):
    for name, value in {
        "SPARK_MODE": "connect",
        "SPARK_CONNECT_URL": "sc://127.0.0.1:1",
        "SPARK_CONNECT_TOKEN": "t",
        "STORE_URI": tmp_path.as_uri(),
    }.items():
        monkeypatch.setenv(f"PIPESTREAM_{name}", value)

    with pytest.raises(SparkUnavailable):
        task.execute(context())
