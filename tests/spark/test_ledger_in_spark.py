from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipestream.kafka.records import OffsetRange
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


def start_job(name, environment, *arguments, in_spark=True):
    """Run a job to its end. Where it starts no session, Spark need not start it either."""
    jars = ",".join(str(jar) for jar in delta_jars())
    options = ["--master", "local[1]", "--jars", jars, "--conf", "spark.ui.enabled=false"]
    starter = ["spark-submit", *options] if in_spark else [sys.executable]
    command = [*starter, str(REPOSITORY / "spark_jobs" / name), *arguments]
    environment = {**environment, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)


def run_job(name, environment, *arguments, in_spark=True):
    """Run a job and return the JSON it printed."""
    done = start_job(name, environment, *arguments, in_spark=in_spark)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


def leave_litter(folder, name, days_old):
    """Leave a file behind as a commit that lost a race does, or one that is still to be made."""
    file = folder / name
    file.write_bytes(b"rows of a commit")
    then = time.time() - days_old * 24 * 3600
    os.utime(file, (then, then))
    return file


def check_tidied(ledger, tidied, entries):
    """Check that files were joined up to a checkpoint, that nothing is lost, and that runs can go on."""
    by_table = {each["table"]: each for each in tidied}
    assert {name: (each["files_joined"], each["files_made"]) for name, each in by_table.items()} == {
        "plans": (12, 1),
        "entries": (12, 1),
    }
    assert by_table["entries"]["retention_hours"] == 168
    assert by_table["entries"]["version"] == ledger.delta_tables()["entries"].version()
    assert ledger.entries() == entries
    assert ledger.heads("g", "intake.a", [0]) == {0: 60}
    ledger.enter([replace(entries[0], range=OffsetRange("intake.a", 0, 60, 70))])
    assert ledger.heads("g", "intake.a", [0]) == {0: 70}


@pytest.mark.parametrize("kept", ["disk"], indirect=True)
def test_spark_joins_files_deletes_old_ones_and_moves_no_head(kept):
    ledger, environment = kept
    entries, folder = ledger.entries(), Path(ledger.entries_uri)
    old = leave_litter(folder, "part-lost-a-race.parquet", days_old=8)
    young = leave_litter(folder, "part-about-to-be-committed.parquet", days_old=0)

    (tidied,) = run_job("ledger_upkeep.py", environment)

    assert (old.exists(), young.exists()) == (False, True)
    assert list((folder / "_delta_log").glob("*.checkpoint.parquet"))
    check_tidied(ledger, tidied, entries)


@pytest.mark.parametrize("kept", ["S3"], indirect=True)
def test_the_same_job_tidies_a_ledger_on_s3(kept):
    ledger, environment = kept
    entries = ledger.entries()

    (tidied,) = run_job("ledger_upkeep.py", environment, in_spark=False)

    check_tidied(ledger, tidied, entries)


@pytest.mark.parametrize("kept", ["disk", pytest.param("S3", marks=pytest.mark.slow)], indirect=True)
def test_the_history_is_shown_per_topic_run_and_day(kept):
    _, environment = kept

    rows = run_job("ledger_history.py", environment, "--by", "topic", "run", "day", "--json")

    def told(by, *keys):
        own = [row for row in rows if row["by"] == by]
        return [(*(row[key] for key in keys), row["ranges"], row["offsets"], row["records"]) for row in own]

    assert told("topic", "topic") == [("intake.a", 6, 60, 54), ("intake.b", 6, 60, 54)]
    assert told("run", "run_id", "topic") == [
        (f"run-{run}", f"intake.{topic}", 2, 20, 18) for run in range(3) for topic in "ab"
    ]
    assert told("day", "day") == [("2026-01-01", 6, 60, 54), ("2026-01-02", 6, 60, 54)]


def test_a_retention_that_is_too_short_is_refused(settings, spark_env):
    fill(Ledger(settings), 1)

    refused = start_job("ledger_upkeep.py", spark_env, "--retention-hours", "167", in_spark=False)

    assert refused.returncode == 2
    assert "at least 168" in refused.stderr


def test_a_ledger_that_is_not_there_has_no_history_and_needs_no_upkeep(settings, spark_env):
    assert run_job("ledger_history.py", spark_env, "--json", in_spark=False) == []
    assert run_job("ledger_upkeep.py", spark_env, in_spark=False) == [[]]
    assert not Path(Ledger(settings).root).exists()
