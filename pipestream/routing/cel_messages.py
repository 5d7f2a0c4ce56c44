"""Fields of messages as CEL's values, for the celpy engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default as default_pool  # noqa: N813
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from pipestream.routing.cel_values import NANOS, Instant, Span, index, no_overload
from pipestream.routing.engine import EvaluationError
from pipestream.routing.literals import Uint


def select(operand: Any, name: str) -> Any:
    """``operand.name``: a message's field, or a map's value."""
    if isinstance(operand, Message):
        return _reader(cast("Descriptor", operand.DESCRIPTOR), name)(operand)
    if type(operand) is dict:
        return index(operand, name)
    raise no_overload(f".{name}", operand)


def has(operand: Any, name: str) -> bool:
    """``has(operand.name)`` as CEL defines it for messages and maps."""
    if type(operand) is dict:
        return name in operand
    if not isinstance(operand, Message):
        raise no_overload(f"has .{name}", operand)
    found = _field(cast("Descriptor", operand.DESCRIPTOR), name)
    if found.is_repeated:
        return len(getattr(operand, name)) > 0
    if found.has_presence:
        return bool(operand.HasField(name))
    return bool(getattr(operand, name) != found.default_value)


def _field(message: Descriptor, name: str) -> FieldDescriptor:
    found = message.fields_by_name.get(name)
    if found is None:
        raise EvaluationError(f"{message.name} has no field {name}")
    return found


@lru_cache(maxsize=4096)
def _reader(message: Descriptor, name: str) -> Callable[[Any], Any]:
    """How to read one field as a CEL value. Unset fields read as CEL's defaults."""
    found = _field(message, name)
    entry = found.message_type
    if entry is not None and entry.GetOptions().map_entry:
        read_key = _converter(entry.fields_by_name["key"])
        read_value = _converter(entry.fields_by_name["value"])
        return lambda owner: {read_key(key): read_value(value) for key, value in getattr(owner, name).items()}
    read = _converter(found)
    if found.is_repeated:
        return lambda owner: [read(item) for item in getattr(owner, name)]
    if entry is not None and entry.full_name in _WRAPPERS:
        return lambda owner: read(getattr(owner, name)) if owner.HasField(name) else None
    return lambda owner: read(getattr(owner, name))


def _converter(found: FieldDescriptor) -> Callable[[Any], Any]:
    if found.message_type is not None:
        return from_message
    if found.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return Uint
    return _as_is


def _as_is(value: Any) -> Any:
    return value


_WRAPPERS: Final = {
    f"google.protobuf.{kind}Value": (Uint if kind.startswith("UInt") else _as_is)
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}


def from_message(message: Any) -> Any:
    """A message as a CEL value: protobuf's well-known types become plain values."""
    name = message.DESCRIPTOR.full_name
    if not name.startswith("google.protobuf."):
        return message
    match name.removeprefix("google.protobuf."):
        case "Timestamp":
            return Instant(message.seconds * NANOS + message.nanos)
        case "Duration":
            return Span(message.seconds * NANOS + message.nanos)
        case "Struct":
            return {key: from_message(value) for key, value in message.fields.items()}
        case "ListValue":
            return [from_message(value) for value in message.values]
        case "Value":
            return _from_value(message)
        case "Any":
            return from_message(_unpacked(message))
    wrapper = _WRAPPERS.get(name)
    return message if wrapper is None else wrapper(message.value)


def _from_value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    value = getattr(message, kind)
    return from_message(value) if kind in ("struct_value", "list_value") else value


def _unpacked(packed: AnyMessage) -> Message:
    try:
        message = GetMessageClass(default_pool().FindMessageTypeByName(packed.type_url.rpartition("/")[2]))()
        message.ParseFromString(packed.value)
    except (KeyError, DecodeError):
        raise EvaluationError(f"cannot unpack an Any of type {packed.type_url!r}") from None
    return message
