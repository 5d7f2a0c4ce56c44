"""Importing pandas takes seconds, and pyarrow imports it where one least expects it. See pipestream/arrow.py.

The check before a drain, which mostly finds that nothing waits, does without pyarrow itself.
"""

from __future__ import annotations

import subprocess
import sys

from pipestream.ledger import Ledger
from pipestream.settings import Settings

LEDGER = """
import sys
from datetime import UTC, datetime

from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Entry, EntryKind, Ledger, Plan, Tally
from pipestream.ledger.entries import HeadMove
from pipestream.settings import Settings

def entry(offsets, kind, tally):
    return Entry("g", offsets, "id", kind, "run", "plan", "g", "hash", "me", 1, tally, 1.5, datetime.now(UTC))

ledger = Ledger(Settings(ledger_uri=sys.argv[1]))
ledger.begin("g", "t", "id", {0: 0}, [])
offsets = (OffsetRange("t", 0, 0, 5),)
ledger.write_plan(Plan("plan", "run", "g", "t", "id", 0, "g", "hash", offsets, "me", 1, datetime.now(UTC), ("a",)))
assert ledger.find_plan("plan", "g").ranges == offsets
ledger.enter([entry(*offsets, EntryKind.DRAINED, Tally(5, {"edge": 5}, 0))])
ledger.rebaseline([entry(HeadMove("t", 0, 5, 2), EntryKind.REBASELINED, None)])
assert ledger.heads("g", "t", [0]) == {0: 2}
assert len(ledger.entries(lane="g")) == 2 and len(ledger.plans()) == 1
assert ledger.partitions() == [("g", "t", 0)]
assert ledger.entries_table(["lane"]).num_rows == 2
print("pandas" in sys.modules)
"""

CHECK = """
import sys

import pipestream.drain.check
from pipestream.ledger import Ledger
from pipestream.settings import Settings

ledger = Ledger(Settings(ledger_uri=sys.argv[1]))
assert ledger.heads("g", "t", [0]) == {0: 7}
assert ledger.is_same_topic("g", "t", "id")
print([name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules])
"""

WORKER = """
import sys

import pyarrow as pa

from pipestream.arrow import to_table
from pipestream_spark.worker import Orders, drain_numbered
from pipestream_testing.made import make_task

task = make_task("intake.a", "n", offsets=((0, 5, 9), (1, 2, 4)))
given = to_table([{"id": 0}], pa.schema([("id", pa.int64())])).to_batches()
(answer,) = drain_numbered(Orders.of([task]), iter(given))
assert answer.num_rows == 2
print("pandas" in sys.modules)
"""


def run_in_a_fresh_interpreter(program: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def test_a_run_plans_and_records_its_ranges_without_pandas(tmp_path):
    assert run_in_a_fresh_interpreter(LEDGER, f"file://{tmp_path / 'ledger'}") == "False"


def test_the_check_before_a_drain_reads_heads_without_pyarrow(tmp_path):
    uri = f"file://{tmp_path / 'ledger'}"
    Ledger(Settings(ledger_uri=uri)).begin("g", "t", "id", {0: 7}, [])

    assert run_in_a_fresh_interpreter(CHECK, uri) == "[]"


def test_a_spark_worker_answers_without_pandas(tmp_path):
    missing = str(tmp_path / "missing.toml")

    assert run_in_a_fresh_interpreter(WORKER, PIPESTREAM_CONFIG=missing) == "False"
