"""CEL's timestamps and durations in Python, for the celpy engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipestream.routing.cel_values import NANOS, Instant, Span, no_overload
from pipestream.routing.engine import EvaluationError
from pipestream.routing.literals import Uint

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_text(value: Instant) -> str:
    seconds, nanos = divmod(value.nanos, NANOS)
    whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{whole}{_fraction(nanos)}Z"


def span_text(value: Span) -> str:
    seconds, nanos = divmod(abs(value.nanos), NANOS)
    return f"{'-' if value.nanos < 0 else ''}{seconds}{_fraction(nanos)}s"


def _fraction(nanos: int) -> str:
    """Three, six or nine digits, as few as are exact."""
    if not nanos:
        return ""
    digits = 3 if nanos % 10**6 == 0 else 6 if nanos % 1000 == 0 else 9
    return f".{nanos:09d}"[: digits + 1]


_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([-+])(\d\d):(\d\d))"
)


def to_timestamp(value: Any) -> Instant:
    match value:
        case Instant():
            return value
        case bool() | Uint():
            pass
        case int():
            return Instant(value * NANOS)
        case str():
            return _parsed_instant(value)
    raise no_overload("timestamp", value)


def _parsed_instant(text: str) -> Instant:
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise EvaluationError(f"{text!r} is not a timestamp such as 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = found.groups()
    # A leap second is the first of the next minute.
    leap_s = 1 if second == "60" else 0
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second) - leap_s, tzinfo=UTC)
    except ValueError:
        raise EvaluationError(f"{text!r} is not a timestamp such as 2026-01-31T12:00:00Z") from None
    offset_s = (int(off_hours) * 3600 + int(off_minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
    since = moment - _EPOCH
    seconds = since.days * 86400 + since.seconds + leap_s - offset_s
    return Instant(seconds * NANOS + (0 if leap_s else int((fraction or "0").ljust(9, "0"))))


_UNIT_NANOS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": NANOS, "m": 60 * NANOS, "h": 3600 * NANOS}
_PART: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h)"


def to_duration(value: Any) -> Span:
    if isinstance(value, Span):
        return value
    if type(value) is not str:
        raise no_overload("duration", value)
    found = re.fullmatch(rf"([-+]?)(0|(?:{_PART})+)", value)
    if found is None:
        raise EvaluationError(f"{value!r} is not a duration such as 1h30m")
    nanos = 0
    for number, unit in re.findall(_PART, found[2]):
        whole, _, fraction = number.partition(".")
        nanos += int(whole or 0) * _UNIT_NANOS[unit]
        nanos += int(fraction or 0) * _UNIT_NANOS[unit] // 10 ** len(fraction)
    return Span(-nanos if found[1] == "-" else nanos)


_ERA_S: Final = 146_097 * 86_400
"""400 years: the calendar repeats, weekdays included."""


def _offset_s(zone: str, seconds: int) -> int:
    """How far a zone's clock is ahead of UTC at a moment."""
    if zone in ("", "UTC"):
        return 0
    if found := re.fullmatch(r"([-+]?)(\d{1,2}):(\d\d)", zone):
        ahead = int(found[2]) * 3600 + int(found[3]) * 60
        return -ahead if found[1] == "-" else ahead
    # A day inside the calendar's ends, where Python can still convert.
    inside = min(max(seconds, -62_135_510_400), 253_402_214_400)
    try:
        ahead_by = (_EPOCH + timedelta(seconds=inside)).astimezone(ZoneInfo(zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone!r}") from None
    return 0 if ahead_by is None else round(ahead_by.total_seconds())


def time_part(name: str, part: Callable[[datetime], int], span_part: Callable[[int], int] | None) -> Any:
    is_year = name == "getFullYear"

    def run(value: Any, zone: Any = "UTC") -> int:
        if isinstance(value, Instant) and type(zone) is str:
            seconds, nanos = divmod(value.nanos, NANOS)
            seconds += _offset_s(zone, seconds)
            # A clock ahead of or behind UTC can show the year 0 or 10000, which Python's calendar does not have.
            era = -1 if seconds < -62_135_596_800 else 1 if seconds >= 253_402_300_800 else 0
            moment = _EPOCH + timedelta(seconds=seconds - era * _ERA_S, microseconds=nanos // 1000)
            return part(moment) + (400 * era if is_year else 0)
        if isinstance(value, Span) and span_part is not None:
            return span_part(abs(value.nanos)) * (-1 if value.nanos < 0 else 1)
        raise no_overload(name, value)

    return run
