"""How the fields of a graph are converted to its message and back.

For most fields the kind decides. The other conversions are named in the tables of ``format.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pipestream.graph.kinds import MAX_SAFE_INTEGER, Choice, Field, Free, Section, Sections, Texts

if TYPE_CHECKING:
    from google.protobuf.descriptor import EnumDescriptor
    from google.protobuf.struct_pb2 import Struct, Value


class WireField(Protocol):
    """Writes a model's value into a message, and reads it back as the value of a graph file."""

    def put(self, message: Any, value: Any) -> None:
        """Write a value. Values that protobuf reads back as absent are not written."""
        ...

    def take(self, message: Any) -> Any:
        """Return the value as in a graph file; None: the message does not have it."""
        ...


def fill_message(section: Section, part: Any, message: Any) -> None:
    """Write all fields of a part of a graph into its message."""
    for attribute, wire in _wires_of(section):
        wire.put(message, getattr(part, attribute))


def message_values(section: Section, message: Any) -> dict[str, Any]:
    """Return what a message says, as the values of a graph file."""
    values = {each.key: _wire_of(each).take(message) for each in section.fields}
    return {key: value for key, value in values.items() if value is not None}


@cache
def _wires_of(section: Section) -> tuple[tuple[str, WireField], ...]:
    """Return each attribute of a section's model with its conversion. A graph asks thousands of times."""
    return tuple((each.attribute, _wire_of(each)) for each in section.fields)


def _wire_of(each: Field) -> WireField:
    if each.wire and not isinstance(each.wire, str):
        return each.wire
    name = str(each.wire) or each.attribute
    match each.kind:
        case Section() as section:
            return _Part(name, section)
        case Sections(section):
            return _Parts(name, section)
        case Choice(words) if not isinstance(words, tuple):
            return EnumField(name)
        case Texts():
            return Repeated(name)
        case Free():
            return StructField(name)
    return Scalar(name)


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number or a flag. Dots lead into messages inside the message."""

    path: str
    always: bool = False
    """Zero has a meaning: it is read whenever the message is there."""

    def put(self, message: Any, value: Any) -> None:
        if value:
            owner, name = _owner(message, self.path)
            setattr(owner, name, value)

    def take(self, message: Any) -> Any:
        owner, name = _owner(message, self.path)
        value = getattr(owner, name)
        return value if value or self.always else None


@dataclass(frozen=True, slots=True)
class Repeated:
    """A list of text."""

    name: str
    always: bool = False

    def put(self, message: Any, value: Any) -> None:
        getattr(message, self.name).extend(value)

    def take(self, message: Any) -> Any:
        values = list(getattr(message, self.name))
        return values if values or self.always else None


@dataclass(frozen=True, slots=True)
class EnumField:
    """A word. The names of a protobuf enum have a prefix, which is read from the zero value."""

    path: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Our words, in capitals, that have another name on the wire."""

    def put(self, message: Any, value: Any) -> None:
        if not value:
            return
        owner, name = _owner(message, self.path)
        enum, prefix = _enum_of(owner.DESCRIPTOR, name)
        word = value.name if isinstance(value, Enum) else value.upper()
        setattr(owner, name, enum.values_by_name[prefix + self.renamed.get(word, word)].number)

    def take(self, message: Any) -> str | None:
        owner, name = _owner(message, self.path)
        number = getattr(owner, name)
        if number == 0:
            return None
        enum, prefix = _enum_of(owner.DESCRIPTOR, name)
        if number not in enum.values_by_number:
            return str(number)
        word = enum.values_by_number[number].name.removeprefix(prefix)
        ours = {theirs: our for our, theirs in self.renamed.items()}
        return ours.get(word, word).lower()


@dataclass(frozen=True, slots=True)
class StructField:
    """A mapping with any content."""

    path: str

    def put(self, message: Any, value: Any) -> None:
        if value:
            owner, name = _owner(message, self.path)
            getattr(owner, name).update(value)

    def take(self, message: Any) -> Any:
        owner, name = _owner(message, self.path)
        return _plain_struct(getattr(owner, name)) or None


@dataclass(frozen=True, slots=True)
class TextMapField:
    """A mapping of text to text."""

    path: str

    def put(self, message: Any, value: Any) -> None:
        if value:
            owner, name = _owner(message, self.path)
            getattr(owner, name).update(value)

    def take(self, message: Any) -> Any:
        owner, name = _owner(message, self.path)
        return dict(getattr(owner, name)) or None


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """A Duration, whose absence differs from zero."""

    name: str

    def put(self, message: Any, value: Any) -> None:
        if value is not None:
            getattr(message, self.name).FromMilliseconds(value)

    def take(self, message: Any) -> Any:
        if not message.HasField(self.name):
            return None
        duration = getattr(message, self.name)
        return duration.seconds * 1_000 + duration.nanos // 1_000_000


class Attempts:
    """Attempts in total. The wire's own field counts retries, and cannot distinguish "none" from "not set"."""

    def put(self, message: Any, value: Any) -> None:
        if value is not None:
            message.max_retries = value - 1
            message.max_attempts = value

    def take(self, message: Any) -> Any:
        if message.HasField("max_attempts"):
            return message.max_attempts or None
        return message.max_retries + 1 if message.max_retries else None


class MappingTypeField:
    """A mapping's type; without one, the configuration in the message decides."""

    _named = EnumField("mapping_type")

    def put(self, message: Any, value: Any) -> None:
        self._named.put(message, value)

    def take(self, message: Any) -> Any:
        config = message.WhichOneof("mapping_config") or ""
        return self._named.take(message) or config.removesuffix("_config") or None


class ByMappingType:
    """A field in the configuration of a mapping's type. The type is written to the message first."""

    def __init__(self, **by_type: WireField) -> None:
        self._by_type = by_type

    def put(self, message: Any, value: Any) -> None:
        wire = self._by_type.get(MappingTypeField().take(message))
        if wire is not None:
            wire.put(message, value)

    def take(self, message: Any) -> Any:
        return next((found for wire in self._by_type.values() if (found := wire.take(message)) is not None), None)


class ConnectorParts:
    """A connector. Its kind is among its options in a file, and next to them on the wire."""

    _kind, _options = Scalar("connector_kind"), StructField("connector_options")

    def put(self, message: Any, value: Any) -> None:
        if value is not None:
            self._kind.put(message, value.kind)
            self._options.put(message, value.options)

    def take(self, message: Any) -> Any:
        options = self._options.take(message) or {}
        kind = self._kind.take(message)
        named = {key: value for key, value in options.items() if key != "kind"}
        return ({"kind": kind} if kind else {}) | named or None


@dataclass(frozen=True, slots=True)
class _Part:
    """A message inside the message; absent where everything is the default."""

    name: str
    section: Section

    def put(self, message: Any, value: Any) -> None:
        if value != self.section.empty:
            part = getattr(message, self.name)
            part.SetInParent()
            fill_message(self.section, value, part)

    def take(self, message: Any) -> Any:
        return message_values(self.section, getattr(message, self.name)) if message.HasField(self.name) else None


@dataclass(frozen=True, slots=True)
class _Parts:
    """A list of messages."""

    name: str
    section: Section

    def put(self, message: Any, value: Any) -> None:
        for part in value:
            fill_message(self.section, part, getattr(message, self.name).add())

    def take(self, message: Any) -> Any:
        return [message_values(self.section, part) for part in getattr(message, self.name)]


def _owner(message: Any, path: str) -> tuple[Any, str]:
    """Return the message that holds a field, and the field's name."""
    if "." not in path:
        return message, path
    *parts, name = path.split(".")
    for part in parts:
        message = getattr(message, part)
    return message, name


@cache
def _enum_of(descriptor: Any, name: str) -> tuple[EnumDescriptor, str]:
    """Return the enum of a message's field, and the prefix of its values' names."""
    enum = descriptor.fields_by_name[name].enum_type
    return enum, enum.values[0].name.removesuffix("UNSPECIFIED")


def _plain_struct(struct: Struct) -> dict[str, Any]:
    """Return a Struct as plain values."""
    return {key: _plain_value(value) for key, value in struct.fields.items()}


def _plain_value(value: Value) -> Any:
    """Return a Struct's value. Whole numbers become whole again: a Struct has only doubles."""
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= MAX_SAFE_INTEGER else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _plain_struct(value.struct_value)
        case "list_value":
            return [_plain_value(item) for item in value.list_value.values]
    return None
