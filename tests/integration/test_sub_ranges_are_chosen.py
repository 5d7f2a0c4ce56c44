"""A run decides by what the topic's documents cost so far whether it uses more tasks than there are partitions."""

from __future__ import annotations

import pytest

from pipestream.drain import plan_tasks
from pipestream.drain.local_runner import LocalRunner
from pipestream.leases import DesiredState
from pipestream.ledger import Ledger
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


class ManySlots(LocalRunner):
    """Says that it runs four tasks at once, and keeps the tasks that it got."""

    def __init__(self, settings):
        super().__init__(settings)
        self.asked = 0
        self.tasks = []

    def find_task_slots(self):
        self.asked += 1
        return 4

    def __call__(self, tasks):
        self.tasks += tasks
        return super().__call__(tasks)


@pytest.fixture
def drain(pipeline, unique):
    """Send documents and drain them; return the report and the runner."""
    topic = f"intake.{unique}"

    def drain(run_id, count, **setting_changes):
        changed = Pipeline(pipeline.settings.model_copy(update=setting_changes), pipeline.graph_file)
        changed.send(topic, [f"{run_id}-{number}" for number in range(count)])
        runner = ManySlots(changed.settings)
        return changed.drain(topic, run_id, runner=runner), runner

    return drain


def test_the_second_run_of_slow_documents_is_cut_and_the_first_says_why_not(drain, monkeypatch):
    # As if seconds were minutes, so that the test does not take minutes.
    for name in ("_TELLING_S", "_START_S", "_WAVE_COST_S"):
        monkeypatch.setattr(plan_tasks, name, 0.0)

    first, runner = drain("run-1", 30)

    assert first.tasks.endswith("no earlier run of this topic was long enough to tell its cost")
    assert (runner.asked, [task.sub_ranges for task in runner.tasks]) == (0, [()])

    second, runner = drain("run-2", 30)

    assert second.tasks.startswith("sub-ranges of ")
    assert "30 offsets at " in second.tasks
    assert second.records == 30
    assert {len(task.sub_ranges) for task in runner.tasks} != {0}

    third, runner = drain("run-3", 30, sub_ranges="never")

    assert third.tasks == "one task per partition: the setting sub_ranges is never"
    assert (runner.asked, [task.sub_ranges for task in runner.tasks]) == (0, [()])


def test_the_slots_of_a_run_read_the_history_once(pipeline, topic, leases, monkeypatch):
    read, reads = Ledger.entries_table, []
    monkeypatch.setattr(
        Ledger, "entries_table", lambda *args, **wanted: (reads.append(wanted), read(*args, **wanted))[1]
    )
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))

    report = pipeline.drain(topic, "run-1", runner=ManySlots(pipeline.settings))

    assert (report.records, report.ranges) == (2, 2)
    assert [(each["lane"], each["topic"]) for each in reads] == [(pipeline.graph.graph_id, topic)]


def test_a_node_that_wants_its_records_in_order_of_time_keeps_one_task(drain, pipeline, unique):
    first = "  - id: first\n    module: python:pipestream_testing.steps:pass_on"
    text = pipeline.graph_file.read_text()
    pipeline.graph_file.write_text(text.replace(first, f"{first}\n    ordering: timestamp"))

    report, runner = drain("run-1", 30, sub_ranges="always")

    assert report.tasks == "one task: its node wants the records of all partitions in order of time"
    assert [task.sub_ranges for task in runner.tasks] == [()]
