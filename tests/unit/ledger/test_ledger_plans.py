from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipestream.ledger import Ledger, Plan
from pipestream.offsets.ranges import OffsetRange
from pipestream.settings import Settings

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def plan(run_id, topic="intake.a", minute=0):
    ranges = (OffsetRange(topic, 0, 5, 9), OffsetRange(topic, 1, 0, 3))
    planned_at = BEGIN + timedelta(minutes=minute)
    return Plan(f"{run_id}|{topic}|0", run_id, "g", topic, "id", 0, "g", "h", ranges, "me", 7, planned_at)


def test_plans_are_listed_oldest_first_with_all_their_ranges(tmp_path):
    ledger = Ledger(Settings(ledger_uri=tmp_path.as_uri()))
    for each in (plan("late", minute=2), plan("early", minute=1)):
        ledger.write_plan(each)

    assert ledger.plans() == [plan("early", minute=1), plan("late", minute=2)]


def test_plans_are_found_by_run_and_topic(tmp_path):
    ledger = Ledger(Settings(ledger_uri=tmp_path.as_uri()))
    for each in (plan("one"), plan("one", topic="intake.b"), plan("it's two")):
        ledger.write_plan(each)

    assert ledger.plans(run_id="it's two") == [plan("it's two")]
    assert ledger.plans(run_id="one", topic="intake.b") == [plan("one", topic="intake.b")]
    assert ledger.plans(lane="other") == []
