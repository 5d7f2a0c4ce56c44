"""The kinds of value a graph file may hold: each can check a value and describe itself as JSON Schema.

The tables in ``schema.py`` are made of these, and both the reader and the published schema come from the
tables, so neither can say what the other does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SAFE_INTEGER = 2**53
"""Beyond this a number changes on its way through protobuf's Struct, which has only doubles."""

MAX_TEXT = 100_000
MAX_NESTING = 20


class Mismatch(ValueError):
    """A value is not of its field's kind; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string. A number or a flag is refused rather than guessed at: ``version: 1.10`` is not ``"1.1"``."""

    minimum: int = 0

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Mismatch(f"expected text, not {describe(value)}")
        if len(value) < self.minimum:
            raise Mismatch("must not be empty")
        if len(value) > MAX_TEXT:
            raise Mismatch(f"has {len(value)} characters; at most {MAX_TEXT} are accepted")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": self.minimum} if self.minimum else {"type": "string"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number between two bounds, both included."""

    minimum: int
    maximum: int

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Mismatch(f"expected a whole number, not {describe(value)}")
        if not self.minimum <= value <= self.maximum:
            raise Mismatch(f"must be between {self.minimum} and {self.maximum}, not {value}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Number:
    """A number above one bound (or at it, if ``inclusive``) and up to another."""

    above: float
    maximum: float
    inclusive: bool = False

    def check(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Mismatch(f"expected a number, not {describe(value)}")
        low_enough = value >= self.above if self.inclusive else value > self.above
        if not (low_enough and value <= self.maximum):
            bound = "at least" if self.inclusive else "more than"
            raise Mismatch(f"must be {bound} {self.above:g} and at most {self.maximum:g}, not {value}")
        return float(value)

    def schema(self) -> dict[str, Any]:
        bound = "minimum" if self.inclusive else "exclusiveMinimum"
        return {"type": "number", bound: self.above, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Mismatch(f"expected true or false, not {describe(value)}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise Mismatch(f"expected {' or '.join(self.words)}, not {describe(value)}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of strings, or where ``single`` is set one string standing for a list of one."""

    single: bool = False

    def check(self, value: Any) -> tuple[str, ...]:
        if self.single and isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            raise Mismatch(f"expected {'text or ' if self.single else ''}a list of text, not {describe(value)}")
        return tuple(Text(1).check(item) for item in value)

    def schema(self) -> dict[str, Any]:
        texts = {"type": "array", "items": {"type": "string", "minLength": 1}}
        return {"anyOf": [{"type": "string", "minLength": 1}, texts]} if self.single else texts


@dataclass(frozen=True, slots=True)
class Free:
    """A mapping with any content that JSON can hold: a module's own configuration."""

    def check(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch(f"expected a mapping, not {describe(value)}")
        check_json(value)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class TextMap:
    """A mapping of text to text, as protobuf's ``map<string, string>``."""

    def check(self, value: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise Mismatch(f"expected a mapping of text to text, not {describe(value)}")
        for key, item in value.items():
            if not isinstance(key, str):
                raise Mismatch(f"key {describe(key)} must be text; put it in quotes")
            if not isinstance(item, str):
                raise Mismatch(f"{key}: expected text, not {describe(item)}; put it in quotes")
            Text().check(item)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section: what it holds, and what a reader of the schema should know."""

    kind: Kind
    doc: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with known keys; ``others`` is the kind of all further keys, where they are accepted."""

    name: str
    fields: Mapping[str, Field]
    others: bool = False

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                key: {**field.kind.schema(), "description": field.doc} for key, field in self.fields.items()
            },
            "required": [key for key, field in self.fields.items() if field.required],
            "additionalProperties": self.others,
        }


@dataclass(frozen=True, slots=True)
class Sections:
    """A list of sections of one kind."""

    section: Section

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.section.schema()}


Plain = Text | Whole | Number | Flag | Choice | Texts | Free | TextMap
Kind = Plain | Section | Sections


def describe(value: Any) -> str:
    """Return a value as a message should show it: short, and by kind where it is large."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def check_json(value: Any, depth: int = 0) -> None:
    """Check that a value survives JSON and protobuf's Struct unchanged.

    :raises Mismatch: it does not.
    """
    if depth > MAX_NESTING:
        raise Mismatch(f"nested more than {MAX_NESTING} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Mismatch(f"key {describe(key)} must be text; put it in quotes")
            check_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_json(item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Mismatch(f"{value} cannot be passed on; use a finite number")
    elif isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        raise Mismatch(f"{value} would lose digits; put it in quotes")
