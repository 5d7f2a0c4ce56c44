"""The kinds of value a graph file may hold: each can check a value, write it, and describe itself as JSON Schema.

The tables in ``format.py`` are made of these.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from dataclasses import fields as dataclass_fields
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestream.graph.wire_fields import WireField

MAX_SAFE_INTEGER = 2**53
"""Beyond this a number changes on its way through protobuf's Struct, which has only doubles."""

MAX_TEXT = 100_000
MAX_NESTING = 20


class Mismatch(ValueError):
    """A value is not of its field's kind; the message says what was expected."""


class Plain(ABC):
    """A kind of value without keys of its own."""

    __slots__ = ()

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return a file's value as the model holds it.

        :raises Mismatch: it is not of this kind.
        """

    def plain(self, value: Any) -> Any:
        """Return a model's value as a file holds it."""
        return value

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of this kind."""


@dataclass(frozen=True, slots=True)
class Text(Plain):
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
class Whole(Plain):
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
class Number(Plain):
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
class Flag(Plain):
    """true or false."""

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Mismatch(f"expected true or false, not {describe(value)}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice(Plain):
    """One of a few words: those of an enum, or plain ones."""

    words: tuple[str, ...] | type[Enum]

    def check(self, value: Any) -> Any:
        known = self._known()
        if not isinstance(value, str) or value not in known:
            raise Mismatch(f"expected {' or '.join(known)}, not {describe(value)}")
        return known[value]

    def plain(self, value: Any) -> Any:
        return value.value if isinstance(value, Enum) else value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self._known())}

    def _known(self) -> dict[str, Any]:
        if isinstance(self.words, tuple):
            return {word: word for word in self.words}
        return {each.value: each for each in self.words}


@dataclass(frozen=True, slots=True)
class Texts(Plain):
    """A list of strings, or where ``single`` is set one string standing for a list of one."""

    single: bool = False

    def check(self, value: Any) -> tuple[str, ...]:
        if self.single and isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            raise Mismatch(f"expected {'text or ' if self.single else ''}a list of text, not {describe(value)}")
        return tuple(Text(1).check(item) for item in value)

    def plain(self, value: Any) -> Any:
        return list(value)

    def schema(self) -> dict[str, Any]:
        texts = {"type": "array", "items": {"type": "string", "minLength": 1}}
        return {"anyOf": [{"type": "string", "minLength": 1}, texts]} if self.single else texts


@dataclass(frozen=True, slots=True)
class Free(Plain):
    """A mapping with any content that JSON can hold: a module's own configuration."""

    def check(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch(f"expected a mapping, not {describe(value)}")
        check_json(value)
        return value

    def plain(self, value: Any) -> Any:
        return plain_json(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class TextMap(Plain):
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

    def plain(self, value: Any) -> Any:
        return dict(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section, with everything known about it.

    Its default is that of the model's attribute, so it is not repeated here.
    """

    key: str
    """Its name in a graph file."""
    kind: Kind
    help: str
    renamed: str = ""
    """Its name in the model, where that is another one."""
    required: bool = False
    wire: str | WireField = ""
    """Its name in the message, or what converts it; empty: as in the model."""
    implied: Callable[[Mapping[str, Any], int], Any] | None = None
    """What an absent key means, where that depends on the section's other attributes or its place in a list."""

    @property
    def attribute(self) -> str:
        return self.renamed or self.key


@dataclass(frozen=True, eq=False)
class Section:
    """A mapping with known keys, and the model's class that it is read into. A table of the format, equal to itself."""

    name: str
    model: type[Any]
    fields: tuple[Field, ...]
    identity: tuple[str, ...] = ()
    """The keys without which the section cannot be built."""
    others: str = ""
    """The attribute that takes all further keys; empty: there may be none."""

    @cached_property
    def by_key(self) -> dict[str, Field]:
        return {field.key: field for field in self.fields}

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Return the default of each attribute; required attributes are not included."""
        return {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in dataclass_fields(self.model)
            if not (each.default is MISSING and each.default_factory is MISSING)
        }

    @cached_property
    def empty(self) -> Any:
        """Return the model of a section without keys."""
        return self.model()

    @cached_property
    def implied(self) -> tuple[tuple[str, Callable[[Mapping[str, Any], int], Any]], ...]:
        """Return the attributes whose absence depends on others, each with what it means."""
        return tuple((field.attribute, field.implied) for field in self.fields if field.implied is not None)

    @cached_property
    def without_default(self) -> tuple[str, ...]:
        """Return the attributes of the fields for which the model has no default."""
        return tuple(field.attribute for field in self.fields if field.attribute not in self.defaults)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {field.key: self._describe(field) for field in self.fields},
            "required": [field.key for field in self.fields if field.required],
            "additionalProperties": bool(self.others),
        }

    def _describe(self, field: Field) -> dict[str, Any]:
        described = {**field.kind.schema(), "description": field.help}
        if isinstance(field.kind, Plain):
            default = field.kind.plain(self.defaults.get(field.attribute))
            if default not in (None, "", [], {}) and field.implied is None:
                described["default"] = default
        return described


@dataclass(frozen=True, slots=True)
class Sections:
    """A list of sections of one kind."""

    section: Section

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.section.schema()}


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


def plain_json(value: Any) -> Any:
    """Return free-form values as dicts and lists, which is all that a file or the wire can hold."""
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    return value
