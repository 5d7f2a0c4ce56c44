from __future__ import annotations

import pytest

from pipestream.drain.range_task import RangeFailed, RangeOutcome
from pipestream.drain.report import DrainFailure, from_fields
from pipestream.drain.slot_run import raise_first_failure
from pipestream.errors import (
    Concern,
    GraphInvalid,
    LedgerConflict,
    ModuleFailed,
    Problem,
    TerminalError,
    TransientError,
)


def outcome(partition: int, error: str, *, transient: bool = False, concerns: Concern = Concern.RANGE) -> RangeOutcome:
    return RangeOutcome("t", partition, 0, 5, None, 0.1, error, transient, concerns)


def test_an_outcome_keeps_what_its_error_concerns_on_its_way_from_the_task():
    sent = outcome(1, "no module", concerns=Concern.RUN)

    assert RangeOutcome.from_json(sent.to_json()) == sent


@pytest.mark.parametrize(
    ("cause", "failed"),
    [(Concern.RECORD, Concern.RANGE), (Concern.RANGE, Concern.RANGE), (Concern.RUN, Concern.RUN)],
)
def test_a_range_that_failed_concerns_at_least_the_range(cause, failed):
    assert RangeFailed(outcome(0, "x", concerns=cause)).concerns is failed


def test_of_several_failures_the_one_that_concerns_most_is_raised():
    outcomes = [
        outcome(0, "no answer", transient=True),
        outcome(1, "offsets expired"),
        outcome(2, "module not found", concerns=Concern.RUN),
    ]

    with pytest.raises(RangeFailed, match="module not found"):
        raise_first_failure(outcomes)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LedgerConflict("another run was first"), "LedgerConflict, concerns the range: another run was first"),
        (ModuleFailed("broken"), "ModuleFailed, concerns the record: broken"),
        (
            GraphInvalid([Problem("g.yaml", 1, "nodes", "none")]),
            "GraphInvalid, concerns the run: g.yaml:1: nodes: none",
        ),
    ],
)
def test_a_failure_says_its_kind_and_what_it_concerns(error, told):
    failure = DrainFailure.of(error)

    assert failure.describe() == told
    assert from_fields(failure.to_fields()) == failure
    assert DrainFailure.of(failure.to_error()) == failure


@pytest.mark.parametrize(("transient", "kind"), [(True, TransientError), (False, TerminalError)])
@pytest.mark.parametrize("name", ["RangeFailed", "Concern", "NoSuchError", "PipestreamError"])
def test_a_failure_of_another_kind_is_retried_or_not_as_it_says(name, transient, kind):
    error = DrainFailure("it failed", transient, name).to_error()

    assert (type(error), str(error)) == (kind, "it failed")
