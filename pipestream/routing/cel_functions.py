"""CEL's standard functions in Python, for the celpy engine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from pipestream.routing.cel_times import instant_text, span_text, time_part, to_duration, to_timestamp
from pipestream.routing.cel_values import (
    NANOS,
    Instant,
    Span,
    add,
    checked_int,
    checked_uint,
    compare,
    contains,
    divide,
    equal,
    index,
    modulo,
    multiply,
    negate,
    no_overload,
    subtract,
)
from pipestream.routing.engine import EvaluationError
from pipestream.routing.literals import Uint


def size(value: Any) -> int:
    if type(value) in (str, bytes, list, dict):
        return len(value)
    raise no_overload("size", value)


def _text_test(name: str, test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def run(text: Any, part: Any) -> bool:
        if type(text) is str and type(part) is str:
            return test(text, part)
        raise no_overload(name, text, part)

    return run


def matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise no_overload("matches", text, pattern)
    try:
        return re2.search(pattern, text) is not None
    except re2.error:
        raise EvaluationError(f"bad pattern {pattern!r}") from None


def to_int(value: Any) -> int:
    match value:
        case int():
            return checked_int(int(value))
        case float():
            # The doubles next to the ends of int64 are not exact, so Google's engine refuses both ends.
            if math.isnan(value) or not -(2**63) < value < 2**63:
                raise EvaluationError("double out of int range")
            return int(value)
        case str():
            if re.fullmatch(r"[-+]?[0-9]+", text := value.strip(_BLANKS)):
                return checked_int(int(text))
            raise EvaluationError(f"cannot convert {value!r} to int")
        case Instant():
            return value.nanos // NANOS
    raise no_overload("int", value)


def to_uint(value: Any) -> Uint:
    match value:
        case bool():
            pass
        case int():
            return checked_uint(int(value))
        case float():
            if math.isnan(value) or not 0 <= value < 2**64:
                raise EvaluationError("double out of uint range")
            return Uint(int(value))
        case str():
            if re.fullmatch(r"\+?[0-9]+", text := value.strip(_BLANKS)):
                return checked_uint(int(text))
            raise EvaluationError(f"cannot convert {value!r} to uint")
    raise no_overload("uint", value)


_BLANKS: Final = " \t\n\v\f\r"
_DECIMAL: Final = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|(?i:[-+]?(inf|infinity|nan))"
_HEXADECIMAL: Final = r"(?i:[-+]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[-+]?[0-9]+)?)"


def to_double(value: Any) -> float:
    match value:
        case bool():
            pass
        case int() | float():
            return float(value)
        case str():
            text = value.strip(_BLANKS)
            if re.fullmatch(_DECIMAL, text):
                return float(text)
            if re.fullmatch(_HEXADECIMAL, text):
                return float.fromhex(text)
            raise EvaluationError(f"cannot convert {value!r} to double")
    raise no_overload("double", value)


def to_string(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _double_text(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("the bytes are not UTF-8") from None
        case Instant():
            return instant_text(value)
        case Span():
            return span_text(value)
    raise no_overload("string", value)


def _double_text(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    # The shortest digits that mean this double, in C's %g layout for six digits.
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    if value == 0 or -5 < power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    mantissa = str(digits[0]) + ("." if len(digits) > 1 else "") + "".join(map(str, digits[1:]))
    return f"{'-' * sign}{mantissa}e{power:+03d}"


def to_bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    raise no_overload("bytes", value)


_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}


def to_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is not str:
        raise no_overload("bool", value)
    if value not in _TRUTHS:
        raise EvaluationError(f"cannot convert {value!r} to bool")
    return _TRUTHS[value]


def dyn(value: Any) -> Any:
    return value


def _not(value: Any) -> bool:
    if type(value) is bool:
        return not value
    raise no_overload("!", value)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "!_": _not, "-_": negate, "_+_": add, "_-_": subtract, "_*_": multiply, "_/_": divide, "_%_": modulo,
    "_==_": equal, "_!=_": lambda left, right: not equal(left, right), "_in_": contains, "_[_]": index,
    "_<_": compare("<", lambda a, b: a < b), "_<=_": compare("<=", lambda a, b: a <= b),
    "_>_": compare(">", lambda a, b: a > b), "_>=_": compare(">=", lambda a, b: a >= b),
    "size": size, "matches": matches,
    "contains": _text_test("contains", lambda text, part: part in text),
    "startsWith": _text_test("startsWith", str.startswith), "endsWith": _text_test("endsWith", str.endswith),
    "int": to_int, "uint": to_uint, "double": to_double, "string": to_string, "bytes": to_bytes, "bool": to_bool,
    "timestamp": to_timestamp, "duration": to_duration, "dyn": dyn,
    "getFullYear": time_part("getFullYear", lambda t: t.year, None),
    "getMonth": time_part("getMonth", lambda t: t.month - 1, None),
    "getDate": time_part("getDate", lambda t: t.day, None),
    "getDayOfMonth": time_part("getDayOfMonth", lambda t: t.day - 1, None),
    "getDayOfWeek": time_part("getDayOfWeek", lambda t: t.isoweekday() % 7, None),
    "getDayOfYear": time_part("getDayOfYear", lambda t: t.timetuple().tm_yday - 1, None),
    "getHours": time_part("getHours", lambda t: t.hour, lambda n: n // (3600 * NANOS)),
    "getMinutes": time_part("getMinutes", lambda t: t.minute, lambda n: n // (60 * NANOS)),
    "getSeconds": time_part("getSeconds", lambda t: t.second, lambda n: n // NANOS),
    "getMilliseconds": time_part("getMilliseconds", lambda t: t.microsecond // 1000, lambda n: n // 10**6 % 1000),
}  # fmt: skip
