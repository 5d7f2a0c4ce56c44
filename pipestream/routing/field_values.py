"""Python values into protobuf fields, strictly: a value that does not fit is an error, never a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

_KINDS: Final = {
    FieldDescriptor.CPPTYPE_STRING: "text",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_ENUM: "an enum",
}


def kind_name(field: FieldDescriptor) -> str:
    """What a field holds, in words for an error message."""
    if field.message_type is not None:
        return f"a {field.message_type.name}"
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "bytes"
    return _KINDS.get(field.cpp_type, "a whole number")


def write_field(owner: Any, field: FieldDescriptor, value: Any) -> None:
    """Put ``value`` in a whole field, list or map.

    :raises TypeError: the value is of another kind.
    :raises ValueError: the value is out of range.
    """
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _write_map(owner, field, value)
    elif field.is_repeated:
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise TypeError(f"{name} is a list, and the value is {_described(value)}")
        elements = [to_element(field, item) for item in value]
        owner.ClearField(name)
        getattr(owner, name).extend(elements)
    elif field.message_type is not None:
        getattr(owner, name).CopyFrom(to_element(field, value))
    else:
        setattr(owner, name, to_element(field, value))


def map_value(field: FieldDescriptor) -> FieldDescriptor:
    """The field that describes the values of a map."""
    entry = field.message_type
    assert entry is not None
    return entry.fields_by_name["value"]


def _write_map(owner: Any, field: FieldDescriptor, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{field.name} is a map, and the value is {_described(value)}")
    entry = map_value(field)
    elements = {key: to_element(entry, item) for key, item in value.items()}
    if not all(isinstance(key, str) for key in elements):
        raise TypeError(f"the keys of {field.name} are text")
    owner.ClearField(field.name)
    container = getattr(owner, field.name)
    for key, element in elements.items():
        if isinstance(element, Message):
            container[key].CopyFrom(element)
        else:
            container[key] = element


def to_element(field: FieldDescriptor, value: Any) -> Any:
    """``value`` as one element of a field, checked."""
    if field.message_type is not None:
        return _to_message(field, value)
    fits: Any = None
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            wanted = bytes if field.type == FieldDescriptor.TYPE_BYTES else str
            fits = value if isinstance(value, wanted) else None
        case FieldDescriptor.CPPTYPE_BOOL:
            fits = value if isinstance(value, bool) else None
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            fits = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case FieldDescriptor.CPPTYPE_ENUM:
            fits = _to_enum(field, value)
        case _:
            fits = _to_whole(value)
    if fits is None:
        raise TypeError(
            f"{field.name} holds {kind_name(field)}, and the value is {_described(value)}; convert it with a TRANSFORM"
        )
    return fits


def _to_whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    # Numbers of free-form fields are always doubles, so 3.0 may stand for 3.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def _to_enum(field: FieldDescriptor, value: Any) -> int | None:
    enum = field.enum_type
    assert enum is not None
    if isinstance(value, str):
        if value not in enum.values_by_name:
            raise ValueError(f"{value!r} is not one of {', '.join(enum.values_by_name)}")
        return int(enum.values_by_name[value].number)
    number = _to_whole(value)
    if number is not None and number not in enum.values_by_number:
        raise ValueError(f"{number} is not a number of {enum.name}")
    return number


def _to_message(field: FieldDescriptor, value: Any) -> Message:
    wanted = field.message_type
    assert wanted is not None
    if isinstance(value, Message) and value.DESCRIPTOR.full_name == wanted.full_name:
        return value
    if wanted.full_name == Timestamp.DESCRIPTOR.full_name and isinstance(value, (datetime, str)):
        return _to_timestamp(value)
    if wanted.full_name == Struct.DESCRIPTOR.full_name and isinstance(value, Mapping):
        struct = Struct()
        for key, item in value.items():
            fill_value(struct.fields[key], item)
        return struct
    raise TypeError(f"{field.name} holds {kind_name(field)}, and the value is {_described(value)}")


def _to_timestamp(value: datetime | str) -> Timestamp:
    stamp = Timestamp()
    if isinstance(value, str):
        stamp.FromJsonString(value)
    else:
        stamp.FromDatetime(value if value.tzinfo else value.replace(tzinfo=UTC))
    return stamp


def fill_value(target: Value, value: Any) -> None:
    """Put a plain Python value in a Struct's place."""
    match value:
        case None:
            target.null_value = 0  # type: ignore[assignment]
        case bool():
            target.bool_value = value
        case int() | float():
            target.number_value = value
        case str():
            target.string_value = value
        case Timestamp():
            target.string_value = value.ToJsonString()
        case datetime():
            target.string_value = _to_timestamp(value).ToJsonString()
        case Mapping():
            target.struct_value.Clear()
            for key, item in value.items():
                fill_value(target.struct_value.fields[key], item)
        case list() | tuple():
            target.list_value.Clear()
            for item in value:
                fill_value(target.list_value.values.add(), item)
        case _:
            raise TypeError(f"free-form fields hold texts, numbers, lists and maps, not {_described(value)}")


def _described(value: Any) -> str:
    if isinstance(value, Message):
        return f"a {value.DESCRIPTOR.name}"
    names = {
        str: "text",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        dict: "a map",
        list: "a list",
    }
    return names.get(type(value), type(value).__name__)
