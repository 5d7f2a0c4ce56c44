"""What the processes of a drain on Spark import. Each import is paid for by every drain, or by every worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONNECT = "import pipestream_spark.drain, pipestream_spark.connect, pipestream_spark.connect_runner"
SUBMITTED = "import pipestream_spark.drain, pipestream_spark.runner"


def imported_by(program: str, *names: str) -> list[str]:
    """Run a program in a fresh interpreter, and return which of some modules it has imported."""
    code = f"import sys\n{program}\nprint(*(name for name in {names!r} if name in sys.modules))"
    # A program in a file, because PySpark imports its own tests where there is none.
    done = subprocess.run([sys.executable, "-"], input=code, check=True, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize("program", [CONNECT, SUBMITTED], ids=["connect", "submitted"])
def test_a_drain_on_spark_does_not_import_what_only_its_workers_need(program):
    not_needed = ("pipestream.connectors.ingest", "pipestream.engine.process", "pipestream.dead_letters")

    assert imported_by(program, *not_needed) == []


def test_a_submitted_drain_does_not_import_the_client_of_spark_connect():
    assert imported_by(SUBMITTED, "pyspark.sql.connect", "pandas") == []


def test_before_a_drain_knows_how_it_uses_spark_it_does_not_import_pyspark():
    assert imported_by("import pipestream_spark.drain", "pyspark") == []


def test_a_worker_is_forked_with_all_that_a_task_imports():
    needed = ("pipestream.drain.window", "pipestream.drain.sub_ranges", "confluent_kafka")

    assert imported_by("import pipestream_spark.daemon", *needed) == list(needed)
