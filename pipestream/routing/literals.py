"""What the literals of an expression mean."""

from __future__ import annotations

import re
from typing import Any, Final


class Uint(int):
    """An unsigned integer, kept apart from int as CEL does."""


def literal_value(kind: str, token: str) -> Any:
    """The value of a token of celpy's grammar.

    :raises ValueError: the grammar allows it, but it means nothing.
    """
    match kind:
        case "INT_LIT":
            return _in_range(int(token, 0) if "x" in token else int(token), -(2**63), 2**63 - 1)
        case "UINT_LIT":
            digits = token[:-1]
            return Uint(_in_range(int(digits, 0) if "x" in digits else int(digits), 0, 2**64 - 1))
        case "FLOAT_LIT":
            return float(token)
        case "BOOL_LIT":
            return token == "true"  # noqa: S105 - a token of the grammar, no secret
        case "NULL_LIT":
            return None
        case "BYTES_LIT":
            return _unquote(token[1:], as_bytes=True)
    return _unquote(token, as_bytes=False)


def _in_range(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit in 64 bits")
    return value


_ESCAPE: Final = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\\"'`?])|(?P<octal>[0-3][0-7]{2})|[xX](?P<byte>[0-9a-fA-F]{2})"
    r"|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|(?P<other>.|$))",
    re.DOTALL,
)
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unquote(token: str, *, as_bytes: bool) -> str | bytes:
    """The text or bytes that a quoted literal means."""
    raw = token[0] in "rR"
    quoted = token[1:] if raw else token
    quotes = 3 if quoted[:3] in ('"""', "'''") and len(quoted) >= 6 else 1
    inner = quoted[quotes:-quotes]
    if raw:
        return inner.encode() if as_bytes else inner
    pieces: list[bytes] = []
    at = 0
    for found in _ESCAPE.finditer(inner):
        pieces += [inner[at : found.start()].encode(), _unescaped(found, as_bytes=as_bytes)]
        at = found.end()
    pieces.append(inner[at:].encode())
    whole = b"".join(pieces)
    return whole if as_bytes else whole.decode()


def _unescaped(found: re.Match[str], *, as_bytes: bool) -> bytes:
    groups = found.groupdict()
    if (simple := groups["simple"]) is not None:
        return _SIMPLE.get(simple, simple).encode()
    if (octal := groups["octal"]) is not None:
        code = int(octal, 8)
    elif (digits := groups["byte"]) is not None:
        code = int(digits, 16)
    elif groups["other"] is None and not as_bytes:
        code = int(groups["four"] or groups["eight"], 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError(f"{found[0]} is not a character")
        return chr(code).encode()
    else:
        raise ValueError(f"{found[0]} is not an escape of this literal; write \\\\ for a backslash")
    return bytes([code]) if as_bytes else chr(code).encode()
