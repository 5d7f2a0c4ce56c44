"""CEL's values and operators in Python, for the celpy engine.

CEL's int, double, bool, string, bytes, list, map and null are Python's own types; an unsigned int is a
``Uint``, a timestamp and a duration count nanoseconds exactly. Every operator checks its operands: what CEL
calls "no such overload" is an EvaluationError here, never a Python surprise such as True == 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from pipestream.routing.engine import EvaluationError
from pipestream.routing.literals import Uint

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A timestamp: nanoseconds since 1970."""

    nanos: int

    def __post_init__(self) -> None:
        # Years 1 to 9999, as the Timestamp message allows.
        if not -62_135_596_800 * NANOS <= self.nanos < 253_402_300_800 * NANOS:
            raise EvaluationError("timestamp out of range")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A duration: nanoseconds."""

    nanos: int

    def __post_init__(self) -> None:
        if abs(self.nanos) > 315_576_000_000 * NANOS:
            raise EvaluationError("duration out of range")


def no_overload(name: str, *values: Any) -> EvaluationError:
    kinds = ", ".join(kind_of(value) for value in values)
    return EvaluationError(f"no matching overload for {name}({kinds})")


_KINDS: Final[dict[type, str]] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", list: "list",
    dict: "map", type(None): "null", Instant: "timestamp", Span: "duration",
}  # fmt: skip


def kind_of(value: Any) -> str:
    kind = _KINDS.get(type(value))
    return kind if kind is not None else value.DESCRIPTOR.name


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers by value, other kinds never equal across kinds."""
    if is_number(left) and is_number(right):
        left, right = _comparable(left, right)
        return bool(left == right)
    if isinstance(left, Message) and isinstance(right, Message):
        return left.DESCRIPTOR is right.DESCRIPTOR and left == right
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            (found := find_key(right, key)) is not MISSING and equal(value, found) for key, value in left.items()
        )
    return bool(left == right)


MISSING: Final = object()


def find_key(mapping: dict[Any, Any], key: Any) -> Any:
    """The value under ``key``, or MISSING. Python alone would take True for 1."""
    if type(key) is str:
        return mapping.get(key, MISSING)
    return next((value for each, value in mapping.items() if equal(each, key)), MISSING)


def is_number(value: Any) -> bool:
    return type(value) in (int, float, Uint)


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    # Python compares ints and floats exactly; CEL's engines compare them as doubles.
    return (float(left), float(right)) if type(left) is float or type(right) is float else (left, right)


def compare(name: str, test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Make an ordering operator."""

    def run(left: Any, right: Any) -> bool:
        if type(left) is type(right) and type(left) in _ORDERED:
            return test(left, right)
        if is_number(left) and is_number(right):
            return test(*_comparable(left, right))
        raise no_overload(name, left, right)

    return run


_ORDERED: Final = frozenset({bool, str, bytes, Instant, Span})


def contains(item: Any, container: Any) -> bool:
    if type(container) is list:
        return any(equal(each, item) for each in container)
    if type(container) is dict and (type(item) in (str, bool) or is_number(item)):
        return find_key(container, item) is not MISSING
    raise no_overload("in", item, container)


def index(container: Any, key: Any) -> Any:
    if type(container) is dict:
        if (found := find_key(container, key)) is MISSING:
            raise EvaluationError(f"key not found in map: {key!r}")
        return found
    if type(container) is not list or not is_number(key) or key != key // 1:
        raise no_overload("[]", container, key)
    if not 0 <= key < len(container):
        raise EvaluationError(f"index {key} out of range")
    return container[int(key)]


def add(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right) and kind in (str, bytes, list, float):
        return left + right
    match left, right:
        case (Instant(), Span()) | (Span(), Instant()):
            return Instant(left.nanos + right.nanos)
        case Span(), Span():
            return Span(left.nanos + right.nanos)
    return _exact("+", left, right, lambda a, b: a + b)


def subtract(left: Any, right: Any) -> Any:
    if type(left) is type(right) is float:
        return left - right
    match left, right:
        case (Instant(), Instant()) | (Span(), Span()):
            return Span(left.nanos - right.nanos)
        case Instant(), Span():
            return Instant(left.nanos - right.nanos)
    return _exact("-", left, right, lambda a, b: a - b)


def multiply(left: Any, right: Any) -> Any:
    if type(left) is type(right) is float:
        return left * right
    return _exact("*", left, right, lambda a, b: a * b)


def divide(left: Any, right: Any) -> Any:
    if type(left) is type(right) is float:
        if right != 0:
            return left / right
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return _exact("/", left, right, _truncated)


def modulo(left: Any, right: Any) -> Any:
    if type(left) is int and left == INT_MIN and right == -1:
        # The quotient does not fit, so C++ refuses, whatever the remainder.
        raise EvaluationError("integer overflow")
    return _exact("%", left, right, lambda a, b: a - b * _truncated(a, b))


def negate(value: Any) -> Any:
    if type(value) is float:
        return -value
    if type(value) is int:
        return checked_int(-value)
    raise no_overload("-", value)


def _truncated(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _exact(name: str, left: Any, right: Any, operate: Callable[[int, int], int]) -> Any:
    if type(left) is type(right) is int:
        return checked_int(operate(left, right))
    if type(left) is type(right) is Uint:
        return checked_uint(operate(int(left), int(right)))
    raise no_overload(name, left, right)


def checked_int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("integer overflow")
    return int(value)


def checked_uint(value: int) -> Uint:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)
