"""A driver and an executor of different versions: what one does not know of the other's values is refused."""

from __future__ import annotations

import json

import pytest

from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.errors import OtherVersion
from pipestream.version import VERSION
from pipestream_testing.made import make_task

TASK = make_task("intake.a", "first")
OUTCOME = RangeOutcome("intake.a", 0, 0, 5, None, 0.5)


def sent(value):
    """Return the values that another process gets."""
    return json.loads(json.dumps(value.to_fields()) if value is TASK else value.to_json())


def received(value, values):
    return RangeTask.from_fields(values) if value is TASK else RangeOutcome.from_json(json.dumps(values))


@pytest.mark.parametrize("value", [TASK, OUTCOME], ids=["task", "outcome"])
def test_what_the_same_version_wrote_comes_back(value):
    assert received(value, sent(value)) == value


@pytest.mark.parametrize(("value", "name"), [(TASK, "task"), (OUTCOME, "outcome")], ids=["task", "outcome"])
def test_a_field_that_a_newer_version_wrote_is_refused_with_both_versions_and_what_to_do(value, name):
    newer = {**sent(value), "colour": "red", "version": "9.1.0"}

    with pytest.raises(OtherVersion) as caught:
        received(value, newer)

    assert str(caught.value) == (
        f"the {name} of intake.a was written by Pipestream 9.1.0, and this is {VERSION}, which knows no colour; "
        f"install the same version for the driver and the executors, and start a Spark that is kept up again"
    )


def test_a_field_that_an_older_version_did_not_write_is_refused_too():
    values = sent(TASK)
    for name in ("lane", "version"):
        del values[name]

    with pytest.raises(
        OtherVersion, match=r"was written by another version of Pipestream, .* which needs lane; install"
    ):
        received(TASK, values)


def test_a_field_with_a_default_may_be_missing():
    values = sent(OUTCOME)
    del values["busy_s"]

    assert received(OUTCOME, values) == OUTCOME
