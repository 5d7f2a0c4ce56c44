"""The rules of TRANSFORM mappings: one value in, one value out.

| rule | parameters | gives |
| --- | --- | --- |
| ``trim`` | none | the text without blanks at its ends |
| ``lowercase``, ``uppercase`` | none | the text in that case |
| ``replace`` | ``old``, ``new`` (default empty) | the text with every ``old`` replaced |
| ``truncate`` | ``length`` | the first ``length`` characters |
| ``prefix``, ``suffix`` | ``text`` | the text with that before or after it |
| ``default`` | ``value`` | the value, or this one where the source is missing or empty |
| ``to_int``, ``to_double``, ``to_bool``, ``to_string`` | none | the value converted |
| ``slugify`` | none | lower-case ASCII words joined by hyphens |
| ``hash_sha256`` | none | the SHA-256 of the text or bytes, in hex |
| ``iso_date`` | ``format`` (of strptime; default ISO 8601) | the time as RFC 3339 in UTC; a time without zone is UTC |

A list is transformed element by element, by every rule except ``default``.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from pipestream.errors import MappingError

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and the parameters it must and may have, with their types."""

    apply: Callable[[Any, Params], Any]
    required: Mapping[str, type]
    optional: Mapping[str, type]


def check_rule(name: str, params: Params) -> list[str]:
    """Return every problem of a rule's name and parameters."""
    rule = RULES.get(name)
    if rule is None:
        return [f"there is no rule {name!r}; the rules are {', '.join(sorted(RULES))}"]
    problems = [f"rule {name} needs the parameter {key}" for key in rule.required if key not in params]
    known = {**rule.required, **rule.optional}
    for key, value in params.items():
        if key not in known:
            problems.append(f"rule {name} has no parameter {key}")
        elif known[key] is int and not _is_count(value):
            problems.append(f"parameter {key} of rule {name} must be a whole number, 0 or more")
        elif known[key] is str and not isinstance(value, str):
            problems.append(f"parameter {key} of rule {name} must be text")
    return problems


def apply_rule(name: str, value: Any, params: Params) -> Any:
    """Transform one value. None means that it is missing; only ``default`` gives a result for it.

    :raises MappingError: the rule does not accept such a value.
    """
    if problems := check_rule(name, params):
        raise MappingError("; ".join(problems))
    if name == "default":
        return params["value"] if value in (None, "", [], {}) else value
    if value is None:
        return None
    apply = RULES[name].apply
    try:
        return [apply(item, params) for item in value] if isinstance(value, list) else apply(value, params)
    except (TypeError, ValueError, OverflowError) as error:  # the last for a number or a time that is too large
        raise MappingError(f"rule {name}: {error}") from None


def _is_count(value: Any) -> bool:
    # Parameters travel as a Struct, whose numbers are doubles.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _on_text(change: Callable[[str, Params], Any]) -> Callable[[Any, Params], Any]:
    def apply(value: Any, params: Params) -> Any:
        if not isinstance(value, str):
            raise TypeError(f"it takes text, not {type(value).__name__}; convert the value with to_string first")
        return change(value, params)

    return apply


def _to_int(value: Any, _params: Params) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[-+]?\d+\s*", value):
            raise ValueError(f"{value!r} is not a whole number")
        return int(value)
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, float):
        raise ValueError(f"{value} is not a whole number")  # noqa: TRY004 - the value is wrong, not its type
    raise TypeError(f"a {type(value).__name__} is not a number")


def _to_double(value: Any, _params: Params) -> float:
    if isinstance(value, (bool, int, float, str)):
        return float(value)
    raise TypeError(f"a {type(value).__name__} is not a number")


_TRUTHS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _to_bool(value: Any, _params: Params) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUTHS:
        return _TRUTHS[value.strip().lower()]
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{value!r} is neither true nor false")


def to_text(value: Any) -> str:
    """A value as text: numbers without a needless .0, times as RFC 3339."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case bytes():
            return value.decode()
        case Timestamp():
            return value.ToJsonString()
    raise TypeError(f"a {type(value).__name__} has no text")


def _slugify(value: str, _params: Params) -> str:
    plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _hash_sha256(value: Any, _params: Params) -> str:
    data = value if isinstance(value, bytes) else to_text(value).encode()
    return hashlib.sha256(data).hexdigest()


def _iso_date(value: Any, params: Params) -> str:
    if isinstance(value, Timestamp):
        return value.ToJsonString()
    if not isinstance(value, str):
        raise TypeError(f"it takes text or a time, not {type(value).__name__}")
    pattern = params.get("format")
    moment = datetime.strptime(value, pattern) if pattern else datetime.fromisoformat(value)  # noqa: DTZ007
    stamp = Timestamp()
    stamp.FromDatetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return stamp.ToJsonString()


RULES: Final[dict[str, Rule]] = {
    "trim": Rule(_on_text(lambda text, _: text.strip()), {}, {}),
    "lowercase": Rule(_on_text(lambda text, _: text.lower()), {}, {}),
    "uppercase": Rule(_on_text(lambda text, _: text.upper()), {}, {}),
    "replace": Rule(
        _on_text(lambda text, params: text.replace(params["old"], params.get("new", ""))), {"old": str}, {"new": str}
    ),
    "truncate": Rule(_on_text(lambda text, params: text[: int(params["length"])]), {"length": int}, {}),
    "prefix": Rule(_on_text(lambda text, params: params["text"] + text), {"text": str}, {}),
    "suffix": Rule(_on_text(lambda text, params: text + params["text"]), {"text": str}, {}),
    "default": Rule(lambda value, _: value, {"value": object}, {}),
    "to_int": Rule(_to_int, {}, {}),
    "to_double": Rule(_to_double, {}, {}),
    "to_bool": Rule(_to_bool, {}, {}),
    "to_string": Rule(lambda value, _: to_text(value), {}, {}),
    "slugify": Rule(_on_text(_slugify), {}, {}),
    "hash_sha256": Rule(_hash_sha256, {}, {}),
    "iso_date": Rule(_iso_date, {}, {"format": str}),
}
