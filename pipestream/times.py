"""Our times are plain ``datetime`` values in UTC. Times of other libraries become ours here, and only here."""

from __future__ import annotations

from datetime import UTC, datetime


def to_utc(moment: datetime) -> datetime:
    """Return a time as a plain ``datetime`` in UTC.

    Airflow passes pendulum times. They are subclasses of ``datetime`` but their arithmetic differs: the difference of
    two of them cannot be divided by a ``timedelta``.

    :raises ValueError: the time has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; give it one, such as tzinfo=UTC")
    # A subclass converts to itself, so a new value is built from the parts.
    in_utc = moment.astimezone(UTC)
    return datetime.combine(in_utc.date(), in_utc.time(), UTC)


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)
