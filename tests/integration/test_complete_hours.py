"""Which hours of a datasource are complete, on a real broker and a real ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.views.hour_proof import HOUR
from pipestream.views.hours import LastHour, find_complete_hours

pytestmark = pytest.mark.stack


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"hour_grace_s": 0})


def test_an_hour_is_complete_once_its_documents_are_at_their_end_and_late_ones_are_counted(pipeline, unique):
    intake, second = f"intake.{unique}", f"pipestream.{unique}.second"
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    pipeline.send(intake, ["a"], timestamp=hour - timedelta(minutes=90))
    pipeline.send(intake, ["b"], timestamp=hour - timedelta(minutes=30))

    def find(last: LastHour | None = None, at: datetime = now):
        return find_complete_hours(pipeline.settings, pipeline.graph, unique, last, at)

    before = find()
    assert (before.ends, intake in before.missing) == ((), True)
    pipeline.drain(intake, "run-1")
    between = find()
    assert (between.ends, second in between.missing) == ((), True)
    pipeline.drain(second, "run-1")
    first = find()
    assert (first.ends, first.missing, dict(first.late)) == ((hour - HOUR, hour), "", {})

    last = LastHour(first.ends[-1], first.bounds)
    assert find(last).ends == ()
    pipeline.send(intake, ["late"], timestamp=hour - timedelta(minutes=80))
    pipeline.send(intake, ["c"], timestamp=now)
    for topic in (intake, second):
        pipeline.drain(topic, "run-2")
    then = find(last, now + HOUR)
    assert (then.ends, dict(then.late)) == ((hour + HOUR,), {hour - 2 * HOUR: 1})
