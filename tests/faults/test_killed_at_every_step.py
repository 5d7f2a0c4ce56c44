"""Kill the drain at each of its named points; whatever dies when, every document arrives once."""

from __future__ import annotations

import signal

import pytest

from pipestream import faults
from pipestream.ledger import EntryKind
from pipestream.testing.submit import submit_drain

pytestmark = pytest.mark.stack

DOCUMENTS = [f"{partition}-{number}" for partition in range(2) for number in range(35)]


def fill(pipeline, topic):
    for partition in range(2):
        pipeline.send(topic, [d for d in DOCUMENTS if d.startswith(f"{partition}-")], partition=partition)


def check_exactly_once(pipeline, unique):
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == dict.fromkeys(DOCUMENTS, 1)
    pipeline.check_ledger_tiles(f"intake.{unique}")


# The driver's own points are reached once a run, a chunk's once a chunk.
STEPS = [(point, nth) for point in faults.POINTS for nth in ((1, 3) if point.startswith("chunk-") else (1,))]


@pytest.mark.parametrize(("point", "nth"), STEPS)
def test_a_drain_killed_at_any_step_loses_and_repeats_nothing(
    pipeline, unique, start_drain, drain_when_free, point, nth
):
    topic = f"intake.{unique}"
    fill(pipeline, topic)
    killed = start_drain(topic, "run-1", f"{point}=kill@{nth}")
    _, log = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, log

    drain_when_free(topic, "run-2")

    check_exactly_once(pipeline, unique)


@pytest.mark.parametrize("point", [faults.PLAN_WRITTEN, faults.CHUNK_COMMITTED, faults.RANGES_DRAINED])
def test_a_retry_of_the_killed_run_finishes_its_own_plan(pipeline, unique, start_drain, point):
    topic = f"intake.{unique}"
    fill(pipeline, topic)
    killed = start_drain(topic, "run-1", f"{point}=kill")
    killed.communicate(timeout=60)

    again = start_drain(topic, "run-1")
    out, log = again.communicate(timeout=60)

    assert again.returncode == 0, log
    assert '"status": "drained"' in out
    check_exactly_once(pipeline, unique)
    entries = pipeline.entries(topic)
    assert {entry.kind for entry in entries} == {EntryKind.DRAINED}
    assert sum(entry.tally.records for entry in entries) == len(DOCUMENTS)


@pytest.mark.spark
def test_a_spark_drain_killed_between_commit_and_entry_is_recovered_not_redone(
    pipeline, unique, drain_when_free, stack, tmp_path, settings
):
    topic = f"intake.{unique}"
    fill(pipeline, topic)
    from pipestream.local.state import write_settings

    config = tmp_path / "spark.toml"
    write_settings(config, pipeline.settings)
    environment = {**stack.environment(), "PIPESTREAM_CONFIG": str(config)}
    fault = {faults.VARIABLE: f"{faults.RANGES_DRAINED}=kill"}

    killed = submit_drain(pipeline, topic, "run-1", {**environment, **fault}, master=settings.spark_master)
    assert killed.outcome == {}
    assert pipeline.entries(topic) == []
    drain_when_free(topic, "run-2")

    entries = pipeline.entries(topic)
    assert {entry.kind for entry in entries} == {EntryKind.RECOVERED}
    assert sum(entry.tally.records for entry in entries) == len(DOCUMENTS)
    check_exactly_once(pipeline, unique)
