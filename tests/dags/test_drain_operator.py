"""The operator against a stand-in for spark-submit that is a program of its own: arguments, outcome, exit code."""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from pipestream.drain.job import find_drain_job
from pipestream.errors import BrokerUnavailable, TopicMissing
from pipestream.testing.waiting import wait_until
from pipestream_airflow import drain_operator
from pipestream_airflow.drain_operator import DrainOperator

TOPIC = "intake.files"
GRAPH = """
graph: sample
cluster: main
datasources:
  - {id: files, account: acme, entry: parse}
nodes:
  - {id: parse, type: connector}
"""
DRAINED = {
    "status": "drained",
    "topic": TOPIC,
    "records": 12,
    "ranges": 2,
    "recovered_ranges": 0,
    "documents_out": {"happy-end": 12},
    "dead_letters": 0,
    "seconds": 1.5,
}

SPARK_SUBMIT = """#!{python}
import json, os, pathlib, signal, sys, time

folder = pathlib.Path({folder!r})
(folder / "call.json").write_text(json.dumps({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}))
told = json.loads((folder / "told.json").read_text())
if told["outcome"] is not None:
    pathlib.Path(sys.argv[sys.argv.index("--outcome") + 1]).write_text(json.dumps(told["outcome"]))
if told["hang"]:
    def end(*_):
        (folder / "stopped").touch()
        if told["hang"] == "politely":
            sys.exit(143)
    signal.signal(signal.SIGTERM, end)
    (folder / "hangs").touch()
    while True:
        time.sleep(60)
sys.exit(told["exit_code"])
"""


class FakeSpark:
    """A spark-submit on the PATH that does as it is told and remembers how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "spark-submit"
        program.write_text(SPARK_SUBMIT.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)

    def tell(self, outcome: object = None, exit_code: int = 0, hang: str = "") -> None:
        (self.folder / "told.json").write_text(json.dumps({"outcome": outcome, "exit_code": exit_code, "hang": hang}))

    @property
    def was_called(self) -> bool:
        return (self.folder / "call.json").exists()

    @property
    def arguments(self) -> list[str]:
        return json.loads((self.folder / "call.json").read_text())["arguments"]

    @property
    def environment(self) -> dict[str, str]:
        return json.loads((self.folder / "call.json").read_text())["environment"]

    def option(self, name: str) -> str:
        return self.arguments[self.arguments.index(name) + 1]


@pytest.fixture
def spark(tmp_path, monkeypatch) -> FakeSpark:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    fake = FakeSpark(folder)
    fake.tell(DRAINED)
    return fake


@pytest.fixture
def nothing_against_it(monkeypatch) -> None:
    """The check before Spark, which asks real servers and has its own tests, finds no reason to skip."""
    monkeypatch.setattr(drain_operator, "find_reason_to_skip", lambda *_: None)
    monkeypatch.setattr(drain_operator, "find_reason_to_skip_backfill", lambda *_: None)


@pytest.fixture
def task(tmp_path) -> DrainOperator:
    graph_file = tmp_path / "sample.yaml"
    graph_file.write_text(GRAPH)
    return DrainOperator(task_id="drain_intake_files", topic=TOPIC, graph_file=str(graph_file))


def context(**params: Any) -> dict[str, Any]:
    filled_in = {"mode": "catch_up", "topics": [TOPIC], "budget": 500, "accept_failures": False, **params}
    return {
        "params": filled_in,
        "dag": SimpleNamespace(dag_id="pipestream_sample"),
        "dag_run": dag_run(),
        "run_id": "manual__1",
    }


def dag_run(run_type: DagRunType = DagRunType.MANUAL, clear_number: int = 0) -> SimpleNamespace:
    asked_for = datetime(2026, 11, 16, 8, 30, 15, 250_000, tzinfo=UTC)
    return SimpleNamespace(run_type=run_type, clear_number=clear_number, run_after=asked_for)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_drain_returns_the_counts_of_the_job(task, spark):
    assert task.execute(context()) == DRAINED


@pytest.mark.usefixtures("nothing_against_it")
def test_the_job_is_told_graph_topic_run_and_budget(task, spark):
    task.execute(context(budget=77))

    assert spark.option("--graph") == task.graph_file
    assert spark.option("--topic") == TOPIC
    assert spark.option("--run-id") == "pipestream_sample/manual__1/drain_intake_files"
    assert spark.option("--budget") == "77"
    assert "--accept-failures" not in spark.arguments


@pytest.mark.usefixtures("nothing_against_it")
def test_the_job_is_told_to_accept_failures_when_the_run_does(task, spark):
    task.execute(context(accept_failures=True))

    assert "--accept-failures" in spark.arguments


@pytest.mark.usefixtures("nothing_against_it")
def test_the_job_is_submitted_to_the_master_of_the_connection_in_client_mode(task, spark):
    task.execute(context())

    assert spark.option("--master") == "local[2]"
    assert spark.option("--deploy-mode") == "client"
    assert find_drain_job() in spark.arguments


@pytest.mark.usefixtures("nothing_against_it")
def test_spark_runs_the_python_of_airflow(task, spark, monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    task.execute(context())

    assert spark.environment["PYSPARK_PYTHON"] == sys.executable
    assert spark.environment["PATH"].endswith(os.pathsep + str(Path(sys.executable).parent))


@pytest.mark.usefixtures("nothing_against_it")
def test_no_secret_is_on_the_command_line(task, spark, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_POSTGRES_DSN", "postgresql://user:s3cr3t@127.0.0.1/none")

    task.execute(context())

    assert spark.environment["PIPESTREAM_POSTGRES_DSN"].endswith("/none")
    assert not [argument for argument in spark.arguments if "s3cr3t" in argument]


@pytest.mark.usefixtures("nothing_against_it")
def test_the_login_to_kafka_reaches_the_job_in_its_environment_alone(task, spark, monkeypatch, caplog):
    options = '{"security.protocol": "SASL_SSL", "sasl.password": "s3cr3t"}'
    monkeypatch.setenv("PIPESTREAM_KAFKA_OPTIONS", options)

    returned = task.execute(context())

    assert spark.environment["PIPESTREAM_KAFKA_OPTIONS"] == options
    assert "s3cr3t" not in " ".join(spark.arguments)
    assert "s3cr3t" not in json.dumps(returned)
    assert "s3cr3t" not in caplog.text


@pytest.mark.usefixtures("nothing_against_it")
def test_nothing_is_left_in_the_temporary_folder(task, spark):
    task.execute(context())

    assert not Path(spark.option("--outcome")).parent.exists()


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_skipped_skips_the_task_with_its_reason(task, spark):
    spark.tell({"status": "skipped", "topic": TOPIC, "reason": "intake.files is leased by other-run"})

    with pytest.raises(AirflowSkipException, match=r"intake\.files is leased by other-run"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_found_nothing_skips_the_task_with_its_reason(task, spark):
    spark.tell({"status": "empty", "topic": TOPIC, "reason": f"nothing waits in {TOPIC}"})

    with pytest.raises(AirflowSkipException, match=r"nothing waits in intake\.files"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_terminal_failure_is_not_retried_and_says_why(task, spark):
    spark.tell({"status": "failed", "error": "the topic was made again", "transient": False}, exit_code=2)

    with pytest.raises(AirflowFailException, match="the topic was made again"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_transient_failure_is_retried_and_says_why(task, spark):
    spark.tell({"status": "failed", "error": "no broker answered", "transient": True}, exit_code=1)

    with pytest.raises(AirflowException, match="no broker answered") as caught:
        task.execute(context())

    assert not isinstance(caught.value, AirflowFailException | AirflowSkipException)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_died_without_a_word_is_retried(task, spark):
    spark.tell(exit_code=137)

    with pytest.raises(AirflowException, match="Error code is: 137") as caught:
        task.execute(context())

    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_job_that_ended_well_without_a_word_is_not_taken_for_a_success(task, spark):
    spark.tell(exit_code=0)

    with pytest.raises(AirflowException, match="ended without saying how"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_an_outcome_of_another_program_is_refused(task, spark):
    spark.tell({"status": "fine"})

    with pytest.raises(ValueError, match="outcome has no status of drained"):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_second_try_on_the_same_task_gets_an_outcome_of_its_own(task, spark):
    spark.tell({"status": "failed", "error": "no broker answered", "transient": True}, exit_code=1)
    with pytest.raises(AirflowException):
        task.execute(context())
    first = spark.option("--outcome")
    spark.tell(DRAINED)

    assert task.execute(context()) == DRAINED
    assert spark.option("--outcome") != first


def test_a_topic_that_the_run_did_not_choose_is_skipped(task, spark):
    with pytest.raises(AirflowSkipException, match="not among the topics of this run"):
        task.execute(context(topics=["intake.others"]))

    assert not spark.was_called


def test_a_paused_datasource_is_skipped(task, spark):
    task.paused_datasource = "files"

    with pytest.raises(AirflowSkipException, match="datasource files is paused"):
        task.execute(context())

    assert not spark.was_called


def test_a_reason_to_skip_is_found_before_spark_is_started(task, spark, monkeypatch):
    monkeypatch.setattr(drain_operator, "find_reason_to_skip", lambda *_: f"nothing to drain in {TOPIC}")

    with pytest.raises(AirflowSkipException, match=r"nothing to drain in intake\.files"):
        task.execute(context())

    assert not spark.was_called


def test_a_terminal_error_of_the_check_is_not_retried(task, spark, monkeypatch):
    def missing(*_: object) -> None:
        raise TopicMissing(TOPIC)

    monkeypatch.setattr(drain_operator, "find_reason_to_skip", missing)

    with pytest.raises(AirflowFailException, match="apply the graph that needs it"):
        task.execute(context())


def test_a_transient_error_of_the_check_is_retried(task, spark, monkeypatch):
    def unreachable(*_: object) -> None:
        raise BrokerUnavailable("no broker answered")

    monkeypatch.setattr(drain_operator, "find_reason_to_skip", unreachable)

    with pytest.raises(BrokerUnavailable):
        task.execute(context())


@pytest.mark.usefixtures("nothing_against_it")
def test_a_missing_connection_is_an_error_and_not_a_job_on_yarn(task, spark, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")

    with pytest.raises(AirflowFailException, match=r"set e\.g\. AIRFLOW_CONN_SPARK_DEFAULT="):
        task.execute(context())

    assert not spark.was_called


def kill_while_running(task: DrainOperator, spark: FakeSpark) -> list[BaseException]:
    """Run the task, have it killed once Spark runs, and return what it ended with."""
    ended_with: list[BaseException] = []

    def run() -> None:
        try:
            task.execute(context())
        except AirflowException as error:
            ended_with.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    # The program may be further than the thread that started it, which has to know it first.
    wait_until(lambda: (spark.folder / "hangs").exists() and task._process is not None)
    task.on_kill()
    thread.join(timeout=120)
    assert not thread.is_alive()
    return ended_with


@pytest.mark.usefixtures("nothing_against_it")
def test_a_killed_task_asks_spark_to_stop(task, spark, monkeypatch):
    monkeypatch.setattr(drain_operator, "STOP_TIMEOUT_S", 120.0)
    spark.tell(hang="politely")

    (error,) = kill_while_running(task, spark)

    assert (spark.folder / "stopped").exists()
    assert "143" in str(error)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_killed_task_kills_a_spark_that_does_not_stop(task, spark, monkeypatch):
    monkeypatch.setattr(drain_operator, "STOP_TIMEOUT_S", 0.2)
    spark.tell(hang="stubbornly")

    (error,) = kill_while_running(task, spark)

    assert "-9" in str(error)


def test_killing_a_task_that_has_not_started_spark_does_nothing(task):
    task.on_kill()


MARCH = {"mode": "time_range", "since": "2026-03-01T00:00:00+00:00", "until": "2026-04-01T00:00:00+00:00"}


@pytest.mark.usefixtures("nothing_against_it")
def test_a_time_range_is_drained_again_from_intake_whatever_waits_in_it(task, spark):
    task.execute(context(**MARCH))

    assert spark.option("--backfill-id") == "time-20260301t000000-20260401t000000"
    assert spark.option("--since") == "2026-03-01T00:00:00+00:00"
    assert spark.option("--until") == "2026-04-01T00:00:00+00:00"


@pytest.mark.usefixtures("nothing_against_it")
@pytest.mark.parametrize(
    ("since", "backfill_id"),
    [
        ("2026-03-01T02:00:00+02:00", "time-20260301t000000-20260401t000000"),
        ("2026-03-01T00:00:00", "time-20260301t000000-20260401t000000"),
        ("2026-03-01T00:00:00+02:00", "time-20260228t220000-20260401t000000"),
        ("2026-03-01T00:00:00.5Z", "time-20260301t000000500000-20260401t000000"),
        (None, "time-open-20260401t000000"),
    ],
)
def test_a_time_range_has_the_same_lane_only_if_it_is_the_same_time(task, spark, since, backfill_id):
    task.execute(context(**{**MARCH, "since": since}))

    assert spark.option("--backfill-id") == backfill_id


@pytest.mark.usefixtures("nothing_against_it")
def test_a_time_range_without_an_end_goes_up_to_when_the_run_was_asked_for(task, spark):
    task.execute(context(**{**MARCH, "until": None}))

    assert spark.option("--until") == "2026-11-16T08:30:15.250000+00:00"
    assert spark.option("--backfill-id") == "time-20260301t000000-20261116t083015250000"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"since": None, "until": None}, "needs since, until or both"),
        ({"since": "2026-05-01T00:00:00+00:00"}, "must be before until"),
        ({"since": "2026-02-30T00:00:00+00:00"}, "since is no time: '2026-02-30"),
    ],
)
def test_a_time_range_that_is_none_fails_for_good_before_spark_is_started(task, spark, wrong, reason):
    with pytest.raises(AirflowFailException, match=reason):
        task.execute(context(**{**MARCH, **wrong}))

    assert not spark.was_called


def interval(start: datetime, end: datetime) -> dict[str, Any]:
    run = dag_run(DagRunType.BACKFILL)
    return {**context(), "dag_run": run, "data_interval_start": start, "data_interval_end": end}


@pytest.mark.usefixtures("nothing_against_it")
def test_a_run_of_an_airflow_backfill_drains_its_data_interval_again(task, spark):
    task.execute(interval(datetime(2026, 3, 1, 6, tzinfo=UTC), datetime(2026, 3, 1, 7, tzinfo=UTC)))

    assert spark.option("--backfill-id") == "time-20260301t060000-20260301t070000"
    assert spark.option("--until") == "2026-03-01T07:00:00+00:00"


@pytest.mark.usefixtures("nothing_against_it")
def test_a_run_of_an_airflow_backfill_without_an_interval_never_becomes_a_live_run(task, spark):
    moment = datetime(2026, 3, 1, 6, tzinfo=UTC)

    with pytest.raises(AirflowFailException, match="has no data interval"):
        task.execute(interval(moment, moment))

    assert not spark.was_called


@pytest.mark.usefixtures("nothing_against_it")
def test_a_backfill_drains_the_topics_behind_intake_as_on_any_day(task, spark):
    task.topic = "pipestream.main.parse"

    task.execute(context(**{**MARCH, "topics": ["pipestream.main.parse"]}))

    assert "--backfill-id" not in spark.arguments


def test_a_finished_backfill_is_skipped_before_spark_is_started(task, spark, monkeypatch):
    monkeypatch.setattr(drain_operator, "find_reason_to_skip_backfill", lambda *_: "backfill march is finished")

    with pytest.raises(AirflowSkipException, match="backfill march is finished"):
        task.execute(context(**MARCH))

    assert not spark.was_called


@pytest.mark.usefixtures("nothing_against_it")
def test_a_backfill_waits_for_a_lease_that_another_run_holds(task, spark):
    spark.tell({"status": "skipped", "topic": TOPIC, "reason": "intake.files is leased by other-run"})

    with pytest.raises(AirflowRescheduleException) as waits:
        task.execute(context(**MARCH))

    assert waits.value.reschedule_date > datetime.now(UTC)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_run_that_was_cleared_does_not_take_up_the_plan_from_before(task, spark):
    task.execute(context())
    first = spark.option("--run-id")

    task.execute({**context(), "dag_run": dag_run(clear_number=1)})

    assert (first, spark.option("--run-id")) == (
        "pipestream_sample/manual__1/drain_intake_files",
        "pipestream_sample/manual__1/drain_intake_files/1",
    )
