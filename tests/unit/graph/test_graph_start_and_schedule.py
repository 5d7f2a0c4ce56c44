from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.graph.start import StartAt, StartKind, check_schedule, parse_start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", StartAt(StartKind.EARLIEST)),
        ("earliest", StartAt(StartKind.EARLIEST)),
        ("latest", StartAt(StartKind.LATEST)),
        ("committed:my.group", StartAt(StartKind.COMMITTED, group="my.group")),
        ("2026-01-31T08:00:00Z", StartAt(StartKind.TIME, time=datetime(2026, 1, 31, 8, tzinfo=UTC))),
        ("2026-01-31T08:00:00+02:00", StartAt(StartKind.TIME, time=datetime(2026, 1, 31, 6, tzinfo=UTC))),
        ("PT6H", StartAt(StartKind.AGO, ago=timedelta(hours=6))),
        ("P1DT2H3M4S", StartAt(StartKind.AGO, ago=timedelta(days=1, hours=2, minutes=3, seconds=4))),
        ("P2W", StartAt(StartKind.AGO, ago=timedelta(weeks=2))),
    ],
)
def test_reads_a_place_to_start(text, start):
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "committed:",
        "P",
        "PT",
        "P1Y",
        "-PT1H",
        "P999999D",
        "2026-01-31T08:00:00",
        "0001-01-01T00:00:00+14:00",
        "12",
        "Earliest",
    ],
)
def test_refuses_what_is_not_a_place_to_start(text):
    with pytest.raises(ValueError, match=r"."):
        parse_start(text)


def test_a_duration_counts_back_from_now():
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    assert parse_start("PT6H").moment(now) == datetime(2026, 5, 1, 6, tzinfo=UTC)
    assert parse_start("2026-01-31T08:00:00Z").moment(now) == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert parse_start("latest").moment(now) is None


@pytest.mark.parametrize(
    "text",
    [
        "@hourly",
        "@daily",
        "@continuous",
        "* * * * *",
        "0 6 * * 1-5",
        "*/15 0-6/2 1,15 jan-jun mon",
        "0 0 1 * SUN",
        "59 23 31 12 7",
        "0 0 29 2 *",
        "0 0 31 2-5/3 *",
        "0 0 20/5,31 feb *",
    ],
)
def test_accepts_presets_and_cron(text):
    check_schedule(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@never",
        "hourly",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "1-2-3 * * * *",
        ", * * * *",
        "a * * * *",
        "*/99999999999 * * * *",
    ],
)
def test_refuses_what_is_not_a_schedule(text):
    with pytest.raises(ValueError, match=r"."):
        check_schedule(text)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4-6/2 *", "0 0 31 apr mon"])
def test_refuses_a_day_that_no_month_has(text):
    with pytest.raises(ValueError, match="never comes: no month of"):
        check_schedule(text)
