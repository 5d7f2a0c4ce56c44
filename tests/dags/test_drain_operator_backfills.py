"""The operator of a run that drains a time again: by the DAG's form, or as a backfill created in Airflow."""

from __future__ import annotations

from datetime import UTC, datetime

import pendulum
import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException

from pipestream_airflow import drain_operator
from pipestream_airflow.run_params import RunParams

TOPIC = "intake.files"
MARCH = {"mode": "time_range", "since": "2026-03-01T00:00:00+00:00", "until": "2026-04-01T00:00:00+00:00"}


@pytest.mark.usefixtures("nothing_against_it")
def test_a_time_range_is_drained_again_from_intake_whatever_waits_in_it(task, spark, context):
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
def test_a_time_range_has_the_same_lane_only_if_it_is_the_same_time(task, spark, since, backfill_id, context):
    task.execute(context(**{**MARCH, "since": since}))

    assert spark.option("--backfill-id") == backfill_id


@pytest.mark.usefixtures("nothing_against_it")
def test_a_time_range_without_an_end_goes_up_to_when_the_run_was_asked_for(task, spark, context):
    task.execute(context(**{**MARCH, "until": None}))

    assert spark.option("--until") == "2026-11-16T08:30:15.250000+00:00"
    assert spark.option("--backfill-id") == "time-20260301t000000-20261116t083015250000"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"since": None, "until": None}, "needs since, until or both"),
        ({"since": "2026-05-01T00:00:00+00:00"}, "must be before until"),
        ({"since": "2026-02-30T00:00:00+00:00"}, "since is not a time: '2026-02-30"),
    ],
)
def test_a_time_range_that_is_none_fails_for_good_before_spark_is_started(task, spark, wrong, reason, context):
    with pytest.raises(AirflowFailException, match=reason):
        task.execute(context(**{**MARCH, **wrong}))

    assert not spark.was_called


@pytest.fixture
def interval(context, dag_run):
    """The context of a run of a backfill that was created in Airflow."""

    def interval(start, end):
        run = dag_run(DagRunType.BACKFILL)
        return {**context(), "dag_run": run, "data_interval_start": start, "data_interval_end": end}

    return interval


@pytest.mark.usefixtures("nothing_against_it")
def test_a_run_of_an_airflow_backfill_drains_its_data_interval_again(task, spark, interval):
    task.execute(interval(datetime(2026, 3, 1, 6, tzinfo=UTC), datetime(2026, 3, 1, 7, tzinfo=UTC)))

    assert spark.option("--backfill-id") == "time-20260301t060000-20260301t070000"
    assert spark.option("--until") == "2026-03-01T07:00:00+00:00"


def test_the_times_of_a_backfill_are_plain_times_in_utc_whatever_airflow_uses(context):
    here = pendulum.timezone("Europe/Paris")
    interval = (pendulum.datetime(2026, 3, 1, 7, tz=here), pendulum.datetime(2026, 3, 1, 8, tz=here))
    asked_for = pendulum.datetime(2026, 3, 2, 9, tz=here)
    made_by_airflow = RunParams.read(context()["params"]).backfill("backfill", interval, asked_for)
    made_by_form = RunParams.read(context(**{**MARCH, "until": None})["params"]).backfill("manual", interval, asked_for)

    times = [made_by_airflow.since, made_by_airflow.until, made_by_form.since, made_by_form.until]
    assert {(type(moment), moment.tzinfo) for moment in times} == {(datetime, UTC)}
    assert made_by_airflow.backfill_id == "time-20260301t060000-20260301t070000"
    assert made_by_form.until == datetime(2026, 3, 2, 8, tzinfo=UTC)


@pytest.mark.usefixtures("nothing_against_it")
def test_a_run_of_an_airflow_backfill_without_an_interval_never_becomes_a_live_run(task, spark, interval):
    moment = datetime(2026, 3, 1, 6, tzinfo=UTC)

    with pytest.raises(AirflowFailException, match="has no data interval"):
        task.execute(interval(moment, moment))

    assert not spark.was_called


@pytest.mark.usefixtures("nothing_against_it")
def test_a_backfill_drains_the_topics_behind_intake_as_on_any_day(task, spark, context):
    task.topic = "pipestream.main.parse"

    task.execute(context(**{**MARCH, "topics": ["pipestream.main.parse"]}))

    assert "--backfill-id" not in spark.arguments


def test_a_finished_backfill_is_skipped_before_spark_is_started(task, spark, monkeypatch, context):
    monkeypatch.setattr(drain_operator, "find_reason_to_skip", lambda *_: "backfill march is finished")

    with pytest.raises(AirflowSkipException, match="backfill march is finished"):
        task.execute(context(**MARCH))

    assert not spark.was_called


@pytest.mark.usefixtures("nothing_against_it")
def test_a_backfill_waits_for_a_lease_that_another_run_holds(task, spark, context):
    spark.tell({"status": "skipped", "topic": TOPIC, "reason": "intake.files is leased by other-run"})

    with pytest.raises(AirflowRescheduleException) as waits:
        task.execute(context(**MARCH))

    assert waits.value.reschedule_date > datetime.now(UTC)
