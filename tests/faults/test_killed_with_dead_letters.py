"""Kill a drain while dead letters are in its transactions: each is written exactly once, beside the documents."""

from __future__ import annotations

import signal
import time

import pytest

from pipestream import faults

pytestmark = pytest.mark.stack

MODULE = "    module: python:pipestream_testing.modules:raising\n    config: {only: '3'}\n"


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        pytest.param(faults.CHUNK_PRODUCED, 3, id="sent but not committed"),
        pytest.param(faults.CHUNK_COMMITTED, 3, id="committed with chunks to follow", marks=pytest.mark.slow),
        pytest.param(faults.RANGES_DRAINED, 1, id="all committed but not entered", marks=pytest.mark.slow),
    ],
)
def test_a_drain_killed_with_dead_letters_in_hand_writes_each_of_them_once(
    make_pipeline, unique, topic, documents, fill, check, start_drain, drain_after_death, point, nth
):
    passing = "  - id: first\n    module: python:pipestream_testing.steps:pass_on\n"
    pipeline = make_pipeline((passing, f"  - id: first\n{MODULE}"))
    failing = {document for document in documents if "3" in document}
    assert 0 < len(failing) < len(documents) / 2  # or the run would refuse the range
    fill(pipeline, documents)
    killed = start_drain(pipeline, "run-1", f"{point}=kill@{nth}")
    assert killed.wait() == -signal.SIGKILL, killed.log
    died_at = time.monotonic()

    drain_after_death(pipeline, "run-2")

    check("SIGKILL with dead letters in hand", pipeline, documents, died_at)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == dict.fromkeys(failing, 1)
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == dict.fromkeys(set(documents) - failing, 1)
    # The ledger knows them too, of ranges that the dead run left behind as of its own.
    assert sum(entry.tally.dead_letters for entry in pipeline.entries(topic)) == len(failing)
