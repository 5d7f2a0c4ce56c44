from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipestream.ledger import Entry, EntryKind, Ledger, Tally
from pipestream.local.jars import delta_jars
from pipestream.offsets.ranges import OffsetRange

pytestmark = [pytest.mark.stack, pytest.mark.spark]

REPOSITORY = Path(__file__).resolve().parents[2]


def fill(ledger, count):
    for number in range(count):
        ledger.enter(
            [
                Entry(
                    lane="g",
                    range=OffsetRange("intake.a", 0, number * 10, number * 10 + 10),
                    topic_id="id-1",
                    kind=EntryKind.DRAINED,
                    run_id=f"run-{number}",
                    plan_id="",
                    graph_id="g",
                    graph_hash="h",
                    holder="me",
                    token=1,
                    tally=Tally(9, {"a--b": 9}, 1),
                    seconds=0.5,
                    entered_at=datetime(2026, 1, 1 + number % 2, tzinfo=UTC),
                )
            ]
        )


def run_job(name, environment, *arguments):
    jars = ",".join(str(jar) for jar in delta_jars())
    job = str(REPOSITORY / "spark_jobs" / name)
    command = [
        "spark-submit",
        "--master",
        "local[1]",
        "--jars",
        jars,
        "--conf",
        "spark.ui.enabled=false",
        job,
        *arguments,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


def test_spark_reads_the_ledger_and_upkeep_moves_no_head(settings, spark_env):
    ledger = Ledger(settings)
    fill(ledger, 12)

    (tidied,) = run_job("ledger_upkeep.py", spark_env)
    by_day = run_job("ledger_history.py", spark_env, "--by", "day", "--json")

    entries = next(table for table in tidied if table["table"] == "entries")
    assert (entries["files_joined"], entries["files_made"]) == (12, 1)
    assert ledger.heads("g", "intake.a", [0]) == {0: 120}
    assert len(ledger.entries()) == 12
    assert [(row["day"], row["ranges"], row["records"]) for row in by_day] == [
        ("2026-01-01", 6, 54),
        ("2026-01-02", 6, 54),
    ]
