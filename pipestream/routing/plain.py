"""Values of the engines as the same plain Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pipestream.routing.cel_values import Instant, Span
from pipestream.routing.literals import Uint


def plain_value(value: Any) -> Any:
    """``value`` with timestamps as datetimes, durations as timedeltas, all the way down."""
    match value:
        case bool():
            return value
        case Uint():
            return int(value)
        case bytearray():
            return bytes(value)
        case Instant():
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value.nanos // 1000)
        case Span():
            return timedelta(microseconds=value.nanos // 1000)
        case list():
            return [plain_value(item) for item in value]
        case dict():
            return {plain_value(key): plain_value(item) for key, item in value.items()}
    return value
