from __future__ import annotations

import pytest

from pipestream import errors


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            errors.OffsetsExpired("t", 1, 5, 9, "begin later"),
            "5..8 were deleted by retention before they were read; begin",
        ),
        (errors.OffsetsExpired("t", 1, 5, 9), "pipestream ledger rebaseline --graph FILE --topic t --to earliest"),
        (errors.TopicRewound("t", 1, 5, 3), "pipestream ledger rebaseline --graph FILE --topic t --to earliest"),
        (errors.TopicReplaced("t"), "pipestream ledger rebaseline --graph FILE --topic t --to earliest"),
        (errors.TopicMissing("t"), "pipestream graph apply FILE"),
        (errors.RangeMostlyFailing("t[0] 0..99", 30, 40, "boom"), "--accept-failures"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_that_stops_a_topic_names_the_command_that_gets_it_going(error, advice):
    assert advice in str(error)
