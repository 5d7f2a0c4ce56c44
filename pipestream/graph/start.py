"""Where a topic without a head starts, and when things run: the small languages inside a graph's text fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<weeks>[0-9]{1,5})W)?(?:(?P<days>[0-9]{1,6})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,7})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,11})S)?)?",
    re.ASCII,
)
_MAX_AGO = timedelta(days=36_525)
_PRESETS = ("@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_WEEKDAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_DAYS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
"""How many days a month can have, where it is not 31."""
_CRON_PARTS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _WEEKDAYS),
)


class StartKind(Enum):
    """How a starting place is named."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIME = "time"
    AGO = "ago"


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where a topic without a head starts."""

    kind: StartKind
    group: str = ""
    time: datetime | None = None
    ago: timedelta | None = None

    def moment(self, now: datetime) -> datetime | None:
        """Return the time to start at, for the kinds that are one; ``now`` must know its time zone."""
        if self.ago is not None:
            return now - self.ago
        return self.time


def parse_start(text: str) -> StartAt:
    """Read a ``start_at``: earliest, latest, committed:GROUP, an ISO 8601 time with its zone, or a duration.

    A duration such as ``PT6H`` means that long before the plan is made. Empty means earliest.

    :raises ValueError: it is none of these; the message says what was expected.
    """
    if text in ("", "earliest"):
        return StartAt(StartKind.EARLIEST)
    if text == "latest":
        return StartAt(StartKind.LATEST)
    if text.startswith("committed:") and text != "committed:":
        return StartAt(StartKind.COMMITTED, group=text.removeprefix("committed:"))
    if duration := _DURATION.fullmatch(text):
        parts = {unit: int(number) for unit, number in duration.groupdict().items() if number is not None}
        try:
            ago = timedelta(**parts)
        except OverflowError:
            ago = timedelta.max
        if ago > _MAX_AGO:
            raise ValueError(f"{text} is more than {_MAX_AGO.days} days ago")
        return StartAt(StartKind.AGO, ago=ago)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a place to start: use earliest, latest, committed:GROUP, a time such as "
            f"2026-01-31T08:00:00Z or a duration such as PT6H"
        ) from None
    if time.tzinfo is None:
        raise ValueError(f"time {text} has no zone: append Z for UTC or an offset such as +01:00")
    try:
        return StartAt(StartKind.TIME, time=time.astimezone(UTC))
    except OverflowError:
        raise ValueError(f"time {text} is out of range") from None


def check_schedule(text: str) -> None:
    """Check that a schedule is a preset or a cron expression of five parts, and that its day exists.

    :raises ValueError: it is neither, and the message says which part is wrong; or it is a day such as 30 February, for
        which Airflow would never start a run, and would say so only in a log.
    """
    if text in _PRESETS:
        return
    parts = text.split()
    if text.startswith("@") or len(parts) != len(_CRON_PARTS):
        raise ValueError(
            f"{text!r} is not a schedule: use minute hour day month weekday, such as 0 6 * * *, or "
            f"{', '.join(_PRESETS)}"
        )
    values = [
        {value for item in part.split(",") for value in _cron_values(item, *rules)}
        for part, rules in zip(parts, _CRON_PARTS, strict=True)
    ]
    days, months = values[2:4]
    if min(days) > max(_DAYS.get(month, 31) for month in months):
        raise ValueError(f"{text!r} never comes: no month of {parts[3]!r} has a day of {parts[2]!r}")


def _cron_values(item: str, name: str, low: int, high: int, names: dict[str, int]) -> range:
    """Return the numbers that an item of a part stands for, such as those of ``1-5`` or ``*/2``."""
    span, slash, step = item.partition("/")
    wrong = ValueError(
        f"{item!r} is not a valid {name}: use {low} to {high}, *, a range such as {low}-{high} or a step such as */2"
    )
    if slash and not (step.isascii() and step.isdigit() and 1 <= int(step[:4]) <= high):
        raise wrong
    every = int(step) if slash else 1
    if span == "*":
        return range(low, high + 1, every)
    ends = [names.get(end.lower(), int(end) if re.fullmatch("[0-9]{1,2}", end) else -1) for end in span.split("-")]
    if len(ends) > 2 or any(not low <= end <= high for end in ends) or ends[0] > ends[-1]:
        raise wrong
    last = high if slash and len(ends) == 1 else ends[-1]  # 5/2 means from 5 on
    return range(ends[0], last + 1, every)
