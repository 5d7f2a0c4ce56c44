"""The operator against a stand-in for spark-submit: arguments, outcome, exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRuntimeError,
    AirflowSkipException,
    ErrorType,
)
from airflow.sdk.execution_time.comms import ErrorResponse

from pipestream.drain.job import find_drain_job
from pipestream.drain.report import DrainFailure
from pipestream.errors import BrokerUnavailable, LeaseUnavailable, TopicMissing
from pipestream_airflow import drain_operator
from pipestream_airflow.drain_operator import DrainOperator
from pipestream_airflow.retry_policy import ErrorTreePolicy
from pipestream_testing.spark_submit import DRAINED, FakeSpark
from pipestream_testing.waiting import wait_until

TOPIC = "intake.files"


@pytest.mark.usefixtures("nothing_against_it")
def test_a_drain_returns_the_counts_of_the_job(task, spark, context):
    assert task.execute(context()) == DRAINED


@pytest.mark.usefixtures("nothing_against_it")
def test_the_job_gets_graph_topic_run_and_budget(task, spark, context):
    task.execute(context(budget=77))

    assert spark.option("--graph") == task.graph_file
    assert spark.option("--topic") == TOPIC
    assert spark.option("--run-id") == "pipestream_sample/manual__1/drain_intake_files"
    assert spark.option("--budget") == "77"
    assert "--accept-failures" not in spark.arguments


@pytest.mark.usefixtures("nothing_against_it")
def test_the_job_is_told_to_accept_failures_when_the_run_does(task, spark, context):
    task.execute(context(accept_failures=True))

    assert "--accept-failures" in spark.arguments


@pytest.mark.usefixtures("nothing_against_it")
def test_the_job_is_submitted_to_the_master_of_the_connection_in_client_mode(task, spark, context):
    task.execute(context())

    assert spark.option("--master") == "local[2]"
    assert spark.option("--deploy-mode") == "client"
    assert find_drain_job() in spark.arguments


@pytest.mark.usefixtures("nothing_against_it")
def test_spark_runs_the_python_of_airflow(task, spark, monkeypatch, context):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    task.execute(context())

    assert spark.environment["PYSPARK_PYTHON"] == sys.executable
    assert spark.environment["PATH"].endswith(os.pathsep + str(Path(sys.executable).parent))


@pytest.mark.usefixtures("nothing_against_it")
def test_no_secret_is_on_the_command_line(task, spark, monkeypatch, context):
    monkeypatch.setenv("PIPESTREAM_POSTGRES_DSN", "postgresql://user:s3cr3t@127.0.0.1/none")

    task.execute(context())

    assert spark.environment["PIPESTREAM_POSTGRES_DSN"].endswith("/none")
    assert not [argument for argument in spark.arguments if "s3cr3t" in argument]


@pytest.mark.usefixtures("nothing_against_it")
def test_the_login_to_kafka_reaches_the_job_in_its_environment_alone(task, spark, monkeypatch, caplog, context):
    options = '{"security.protocol": "SASL_SSL", "sasl.password": "s3cr3t"}'
    monkeypatch.setenv("PIPESTREAM_KAFKA_OPTIONS", options)

    returned = task.execute(context())

    assert spark.environment["PIPESTREAM_KAFKA_OPTIONS"] == options
    assert "s3cr3t" not in " ".join(spark.arguments)
    assert "s3cr3t" not in json.dumps(returned)
    assert "s3cr3t" not in caplog.text


@pytest.mark.usefixtures("nothing_against_it")
def test_nothing_is_left_in_the_temporary_folder(task, spark, context):
    task.execute(context())

    assert not Path(spark.option("--outcome")).parent.exists()


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_skipped_skips_the_task_with_its_reason(task, spark, context):
    spark.tell({"status": "skipped", "topic": TOPIC, "reason": "intake.files is leased by other-run"})

    with pytest.raises(AirflowSkipException, match=r"intake\.files is leased by other-run"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_found_nothing_skips_the_task_with_its_reason(task, spark, context):
    spark.tell({"status": "empty", "topic": TOPIC, "reason": f"nothing waits in {TOPIC}"})

    with pytest.raises(AirflowSkipException, match=r"nothing waits in intake\.files"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_terminal_failure_is_not_retried_and_says_why(task, spark, context):
    spark.tell({"status": "failed", "error": "the topic was made again", "transient": False}, exit_code=2)

    with pytest.raises(AirflowFailException, match="the topic was made again"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_another_process_overtook_is_retried_soon(task, spark, context):
    failure = DrainFailure.of(LeaseUnavailable(TOPIC, 0, "another run"))
    spark.tell(failure.to_fields(), exit_code=1)

    with pytest.raises(AirflowException, match="another run") as raised:
        task.execute(context())

    decision = ErrorTreePolicy().evaluate(raised.value, try_number=1, max_tries=2)
    assert decision.retry_delay == timedelta(seconds=10)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_transient_failure_is_retried_and_says_why(task, spark, context):
    spark.tell({"status": "failed", "error": "no broker answered", "transient": True}, exit_code=1)

    with pytest.raises(AirflowException, match="no broker answered") as caught:
        task.execute(context())

    assert not isinstance(caught.value, AirflowFailException | AirflowSkipException)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_died_without_a_word_is_retried(task, spark, context):
    spark.tell(exit_code=137)

    with pytest.raises(AirflowException, match="Error code is: 137") as caught:
        task.execute(context())

    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_ended_well_without_a_word_is_not_taken_for_a_success(task, spark, context):
    spark.tell(exit_code=0)

    with pytest.raises(AirflowException, match="ended without a report"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_an_outcome_of_another_program_is_refused(task, spark, context):
    spark.tell({"status": "fine"})

    with pytest.raises(ValueError, match="outcome has no status of drained"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_second_try_on_the_same_task_gets_an_outcome_of_its_own(task, spark, context):
    spark.tell({"status": "failed", "error": "no broker answered", "transient": True}, exit_code=1)
    with pytest.raises(AirflowException):
        task.execute(context())
    first = spark.option("--outcome")
    spark.tell(DRAINED)

    assert task.execute(context()) == DRAINED
    assert spark.option("--outcome") != first


def test_a_topic_that_the_run_did_not_choose_is_skipped(task, spark, context):
    with pytest.raises(AirflowSkipException, match="not among the topics of this run"):
        task.execute(context(topics=["intake.others"]))

    assert not spark.was_called


def test_a_paused_datasource_is_skipped_without_asking_any_server(task, spark, context):
    file = Path(task.graph_file)
    file.write_text(file.read_text().replace("entry: parse}", "entry: parse, paused: true}"))

    with pytest.raises(AirflowSkipException, match="datasource files is paused"):
        task.execute(context())

    assert not spark.was_called


def test_a_reason_to_skip_is_found_before_spark_is_started(task, spark, monkeypatch, context):
    monkeypatch.setattr(drain_operator, "find_reason_to_skip", lambda *_: f"nothing to drain in {TOPIC}")

    with pytest.raises(AirflowSkipException, match=r"nothing to drain in intake\.files"):
        task.execute(context())

    assert not spark.was_called


def test_a_terminal_error_of_the_check_is_not_retried(task, spark, monkeypatch, context):
    def missing(*_: object) -> None:
        raise TopicMissing(TOPIC)

    monkeypatch.setattr(drain_operator, "find_reason_to_skip", missing)

    with pytest.raises(AirflowFailException, match="apply the graph that needs it"):
        task.execute(context())


def test_a_transient_error_of_the_check_is_retried(task, spark, monkeypatch, context):
    def unreachable(*_: object) -> None:
        raise BrokerUnavailable("no broker answered")

    monkeypatch.setattr(drain_operator, "find_reason_to_skip", unreachable)

    with pytest.raises(BrokerUnavailable):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_missing_connection_is_an_error_and_not_a_job_on_yarn(task, spark, monkeypatch, context):
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")

    with pytest.raises(AirflowFailException, match=r"set e\.g\. AIRFLOW_CONN_SPARK_DEFAULT="):
        task.execute(context())

    assert not spark.was_called


@pytest.mark.usefixtures("nothing_against_it")
def test_without_spark_submit_the_task_says_what_to_install_and_is_not_retried(task, monkeypatch, context):
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"spark-binary": "spark3-submit"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    with pytest.raises(AirflowFailException, match=r"spark3-submit is not installed; .*pipestream-airflow\[spark\]"):
        task.execute(context())


def kill_while_running(task: DrainOperator, spark: FakeSpark, context: Callable[..., Any]) -> list[BaseException]:
    """Run the task, have it killed once Spark runs, and return what it ended with."""
    ended_with: list[BaseException] = []

    def run() -> None:
        try:
            task.execute(context())
        except AirflowException as error:
            ended_with.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: (spark.folder / "hangs").exists())
    finally:
        task.on_kill()
    thread.join(timeout=120)
    assert not thread.is_alive()
    return ended_with


class RefusingTaskInstance:
    """Takes no XCom."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def xcom_push(self, **_: object) -> None:
        raise self._error


@pytest.mark.usefixtures("nothing_against_it")
def test_a_link_that_airflow_does_not_take_leaves_the_drain_alone(task, spark, context):
    spark.tell(DRAINED, says="Spark UI at http://localhost:4040")
    refused = AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))

    report = task.execute({**context(), "ti": RefusingTaskInstance(refused)})

    assert report["records"] == 12
    assert task.spark_ui == "http://localhost:4040"


@pytest.mark.usefixtures("nothing_against_it")
def test_an_error_while_the_output_is_read_stops_spark_and_does_not_wait_for_it(task, spark, context):
    spark.tell(hang="politely", says="Spark UI at http://localhost:4040")

    with pytest.raises(ZeroDivisionError):
        task.execute({**context(), "ti": RefusingTaskInstance(ZeroDivisionError())})


@pytest.mark.usefixtures("nothing_against_it")
def test_a_killed_task_asks_spark_to_stop(task, spark, context):
    task.stop_timeout_s = 120.0
    spark.tell(hang="politely")

    (error,) = kill_while_running(task, spark, context)

    assert (spark.folder / "stopped").exists()
    assert "143" in str(error)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_killed_task_kills_a_spark_that_does_not_stop(task, spark, context):
    task.stop_timeout_s = 0.2
    spark.tell(hang="stubbornly")

    (error,) = kill_while_running(task, spark, context)

    assert "-9" in str(error)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_killed_task_leaves_a_spark_that_needs_longer_than_airflow_waits_to_its_stop(
    task, spark, monkeypatch, context
):
    monkeypatch.setattr(drain_operator, "KILL_WAIT_S", 0.2)
    task.stop_timeout_s = 3600.0
    spark.tell(hang="stubbornly")

    def run() -> None:
        with pytest.raises(AirflowException):
            task.execute(context())

    running = threading.Thread(target=run, daemon=True)
    running.start()
    wait_until(lambda: (spark.folder / "hangs").exists())

    task.on_kill()

    wait_until(lambda: (spark.folder / "stopped").exists(), "Spark was not asked to stop")
    assert running.is_alive()
    task._hook.stop(0.1)
    running.join()


@pytest.mark.usefixtures("nothing_against_it")
def test_a_task_that_is_killed_during_its_check_starts_no_spark(task, spark, monkeypatch, context):
    def check_and_be_killed(*_: object) -> str:
        task.on_kill()  # Airflow calls it from a signal handler, after which the task continues
        return ""

    monkeypatch.setattr("pipestream_airflow.drain_operator.find_reason_to_skip", check_and_be_killed)

    with pytest.raises(AirflowException, match="stopped before Spark was started"):
        task.execute(context())

    assert not spark.was_called


@pytest.mark.usefixtures("nothing_against_it")
def test_a_task_that_is_killed_while_spark_is_started_asks_it_to_stop(task, spark, monkeypatch, context):
    start = subprocess.Popen

    def start_and_be_killed(*arguments: Any, **options: Any) -> Any:
        process = start(*arguments, **options)
        task.on_kill()
        return process

    monkeypatch.setattr("pipestream_airflow.submit_hook.subprocess.Popen", start_and_be_killed)
    spark.tell(hang="politely")

    with pytest.raises(AirflowException):
        task.execute(context())


def test_killing_a_task_that_has_not_started_spark_does_nothing(task):
    task.on_kill()


@pytest.mark.usefixtures("nothing_against_it")
def test_a_run_that_was_cleared_does_not_resume_the_plan_from_before(task, spark, context, dag_run):
    task.execute(context())
    first = spark.option("--run-id")

    task.execute({**context(), "dag_run": dag_run(clear_number=1)})

    assert (first, spark.option("--run-id")) == (
        "pipestream_sample/manual__1/drain_intake_files",
        "pipestream_sample/manual__1/drain_intake_files/1",
    )


@pytest.mark.usefixtures("nothing_against_it")
def test_the_parameters_for_spark_are_passed_on(spark, context, task):
    asked = DrainOperator(
        task_id="drain",
        topic=TOPIC,
        graph_file=task.graph_file,
        conf={"spark.ui.enabled": "false"},
        archives="environment.tar.gz#environment",
        driver_memory="1g",
        executor_memory="2g",
        executor_cores=2,
        total_executor_cores=4,
    )

    asked.execute(context())

    assert spark.option("--conf") == "spark.ui.enabled=false"
    assert spark.option("--archives") == "environment.tar.gz#environment"
    assert spark.option("--driver-memory") == "1g"
    assert spark.option("--executor-memory") == "2g"
    assert spark.option("--executor-cores") == "2"
    assert spark.option("--total-executor-cores") == "4"


@pytest.mark.usefixtures("nothing_against_it")
@pytest.mark.parametrize("where", ["conf", "properties_file"])
def test_a_collector_that_the_task_sets_is_the_only_one_of_the_driver(
    spark, context, task, tmp_path, monkeypatch, where
):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    file = tmp_path / "spark.properties"
    file.write_text("spark.driver.extraJavaOptions -XX:+UseG1GC\n")
    chosen = {"conf": {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}} if where == "conf" else {where: str(file)}

    DrainOperator(task_id="drain", topic=task.topic, graph_file=task.graph_file, **chosen).execute(context())

    assert "UseSerialGC" not in spark.environment["SPARK_SUBMIT_OPTS"]


@pytest.mark.parametrize(
    "wrong",
    [{"executor_cores": 0}, {"num_executors": -1}, {"driver_memory": "lots"}, {"stop_timeout_s": 0}],
    ids=str,
)
def test_a_parameter_that_cannot_be_is_refused_when_the_dag_is_parsed(wrong):
    (name,) = wrong

    with pytest.raises(ValueError, match=f"{name} must be"):
        DrainOperator(task_id="drain", topic=TOPIC, graph_file="sample.yaml", **wrong)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_task_that_is_killed_before_spark_starts_does_not_start_it(task, spark):
    hook = task.make_hook([])
    hook.stop(1)

    with pytest.raises(AirflowException, match="stopped before Spark was started"):
        hook.submit("job.py")

    assert not spark.was_called
