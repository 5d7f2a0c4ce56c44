from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipestream.ledger import Ledger, Tally
from pipestream.local.jars import delta_jars
from pipestream_testing.made import make_entry, make_plan
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.stack, pytest.mark.spark]

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def kept(request, settings, unique, tmp_path, spark_env):
    """A ledger on disk or on S3, filled, and the environment in which a job finds it."""
    if request.param == "S3":
        settings = settings.model_copy(update={"ledger_uri": f"s3://pipestream/{unique}/ledger"})
    file = tmp_path / "kept.toml"
    write_settings(file, settings)
    ledger = Ledger(settings)
    fill(ledger, 12)
    return ledger, {**spark_env, "PIPESTREAM_CONFIG": str(file)}


def fill(ledger, count):
    for number in range(count):
        topic, start = f"intake.{'ab'[number % 2]}", number // 2 * 10
        run_id, now = f"run-{number // 4}", datetime(2026, 1, 1 + number // 6, 23, 30, tzinfo=UTC)
        same = {"run_id": run_id, "plan_id": f"{run_id}|{number}", "topic_id": f"id-{topic}"}
        entry = make_entry(
            start, start + 10, topic=topic, tally=Tally(9, {"a--b": 9}, 1), seconds=0.5, entered_at=now, **same
        )
        ledger.write_plan(make_plan(entry.range, planned_at=now, **same))
        ledger.enter([entry])


def run_job(environment, *arguments, in_spark=True):
    """Run the job and return the JSON it printed. Where it starts no session, Spark need not start it either."""
    jars = ",".join(str(jar) for jar in delta_jars())
    options = ["--master", "local[1]", "--jars", jars, "--conf", "spark.ui.enabled=false"]
    starter = ["spark-submit", *options] if in_spark else [sys.executable]
    command = [*starter, str(REPOSITORY / "spark_jobs" / "ledger_history.py"), *arguments]
    environment = {**environment, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


@pytest.mark.parametrize("kept", ["disk", pytest.param("S3", marks=pytest.mark.slow)], indirect=True)
def test_the_history_is_shown_per_topic_run_and_day(kept):
    _, environment = kept

    rows = run_job(environment, "--by", "topic", "run", "day", "--json")

    def told(by, *keys):
        own = [row for row in rows if row["by"] == by]
        return [(*(row[key] for key in keys), row["ranges"], row["offsets"], row["records"]) for row in own]

    assert told("topic", "topic") == [("intake.a", 6, 60, 54), ("intake.b", 6, 60, 54)]
    assert told("run", "run_id", "topic") == [
        (f"run-{run}", f"intake.{topic}", 2, 20, 18) for run in range(3) for topic in "ab"
    ]
    assert told("day", "day") == [("2026-01-01", 6, 60, 54), ("2026-01-02", 6, 60, 54)]


def test_a_ledger_that_is_not_there_has_no_history(settings, spark_env):
    assert run_job(spark_env, "--json", in_spark=False) == []
    assert not Path(Ledger(settings).root).exists()
