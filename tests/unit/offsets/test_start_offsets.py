from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.errors import OffsetsExpired, TerminalError
from pipestream.graph.start import parse_start
from pipestream.kafka.records import Watermarks
from pipestream.offsets.start import StartUnknown, resolve_start, timestamp_ms_of

MARKS = {0: Watermarks(10, 50), 1: Watermarks(0, 0), 2: Watermarks(3, 8)}
GROUP = parse_start("committed:loaders")


@pytest.mark.parametrize(
    ("policy", "found", "expected"),
    [
        pytest.param("", {}, {0: 10, 1: 0, 2: 3}, id="nothing said is earliest"),
        pytest.param("earliest", {}, {0: 10, 1: 0, 2: 3}, id="earliest"),
        pytest.param("latest", {}, {0: 50, 1: 0, 2: 8}, id="latest"),
        pytest.param("committed:g", {0: 10, 1: 0, 2: 8}, {0: 10, 1: 0, 2: 8}, id="committed, both ends included"),
        pytest.param("committed:g", {0: 20, 2: 5}, {0: 20, 1: 0, 2: 5}, id="committed, but for an empty partition"),
        pytest.param("PT1H", {0: 30, 2: 3}, {0: 30, 1: 0, 2: 3}, id="ago"),
        pytest.param("2026-01-31T08:00:00Z", {}, {0: 50, 1: 0, 2: 8}, id="nothing that late is the end"),
        pytest.param("PT1H", {0: 9, 2: 9}, {0: 10, 1: 0, 2: 8}, id="never outside of the watermarks"),
    ],
)
def test_a_policy_gives_each_partition_its_start(policy, found, expected):
    assert resolve_start(parse_start(policy), "t", MARKS, found) == expected


def test_a_group_that_never_read_a_partition_with_records_is_not_a_place_to_start():
    with pytest.raises(
        StartUnknown, match=r"group loaders has no committed offset for t\[2\]; check the group"
    ) as raised:
        resolve_start(GROUP, "t", MARKS, {0: 20})

    assert isinstance(raised.value, TerminalError)


def test_a_group_without_any_offsets_is_refused_even_if_the_topic_is_empty():
    with pytest.raises(StartUnknown, match="no committed offset"):
        resolve_start(GROUP, "t", {0: Watermarks(0, 0)}, {})


def test_a_group_whose_next_records_were_deleted_is_refused():
    with pytest.raises(OffsetsExpired, match=r"t\[0\]: offsets 9\.\.9 were deleted"):
        resolve_start(GROUP, "t", MARKS, {0: 9, 2: 3})


def test_a_group_ahead_of_the_topic_is_refused():
    with pytest.raises(StartUnknown, match=r"committed 51 for t\[0\], which ends at 50"):
        resolve_start(GROUP, "t", MARKS, {0: 51, 2: 3})


@pytest.mark.parametrize(
    ("moment", "timestamp_ms"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1930, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 0, 0, 1, 1_000, tzinfo=UTC), 1_001),
        (datetime(1970, 1, 1, 0, 0, 1, 1_001, tzinfo=UTC), 1_002),
        (datetime(2026, 1, 31, 9, tzinfo=UTC) - timedelta(hours=1), 1_769_846_400_000),
    ],
)
def test_a_time_is_the_first_millisecond_not_before_it(moment, timestamp_ms):
    assert timestamp_ms_of(moment) == timestamp_ms
