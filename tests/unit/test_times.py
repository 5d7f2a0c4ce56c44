"""Times from other libraries become our own: plain datetimes in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pendulum
import pytest

from pipestream.offsets.start import timestamp_ms_of
from pipestream.times import to_utc

EIGHT = datetime(2026, 1, 31, 8, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(EIGHT, id="our own"),
        pytest.param(EIGHT.astimezone(timezone(timedelta(hours=2))), id="our own, in another zone"),
        pytest.param(pendulum.instance(EIGHT), id="pendulum"),
        pytest.param(pendulum.instance(EIGHT).in_timezone("Europe/Paris"), id="pendulum, in another zone"),
    ],
)
def test_a_time_becomes_a_plain_datetime_in_utc(moment):
    found = to_utc(moment)

    assert type(found) is datetime
    assert found.tzinfo is UTC
    assert found == EIGHT


def test_the_hour_that_a_clock_shows_twice_keeps_its_place():
    second_time = pendulum.datetime(2026, 10, 25, 1, tz="UTC").in_timezone("Europe/Paris")

    assert to_utc(second_time) == datetime(2026, 10, 25, 1, tzinfo=UTC)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match=r"2026-01-31T08:00:00 has no time zone; .*tzinfo=UTC"):
        to_utc(datetime(2026, 1, 31, 8))


def test_kafka_milliseconds_are_found_for_the_times_that_airflow_uses():
    assert timestamp_ms_of(pendulum.instance(EIGHT)) == timestamp_ms_of(EIGHT) == 1_769_846_400_250
