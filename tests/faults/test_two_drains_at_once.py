"""Two drains of one topic at the same moment: one works, the other learns who does, and nothing is done twice."""

from __future__ import annotations

import json
import time

import pytest

from pipestream import faults

pytestmark = pytest.mark.stack


@pytest.fixture
def report_of():
    """Return what a drain that ended well tells of itself."""

    def report_of(drain):
        assert drain.wait() == 0, drain.log
        return json.loads(drain.log.splitlines()[-1])

    return report_of


def test_a_drain_that_meets_another_at_work_is_skipped_and_told_who_it_is(
    pipeline, documents, fill, check, start_drain, report_of, gate
):
    fill(pipeline, documents)
    held = gate.at(faults.CHUNK_PROCESSED, 2)
    first = start_drain(pipeline, "first", held, lease_ttl_s=pipeline.settings.lease_ttl_s)
    first.wait_for(gate)
    met_at = time.monotonic()

    second = report_of(start_drain(pipeline, "second"))

    assert second["status"] == "skipped"
    assert first.holder in second["reason"]
    assert first.is_running()
    gate.open()
    done = report_of(first)
    assert (done["status"], done["records"]) == ("drained", len(documents))
    check("two drains of one topic at once", pipeline, documents, met_at)
