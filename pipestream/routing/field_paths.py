"""Read and write a document's fields by path.

A path is field names joined by dots, from the document down:

* ``search_metadata.title``: a field of a message.
* ``search_metadata.keywords.keyword``: a whole list; ``….keyword.0`` one element of it, from 0.
* ``search_metadata.tags.tag_data.legal``: a map's value. In a map of plain values the rest of the path is the key,
  so a key may hold dots; in ``parsed_metadata`` it is one name, and the path continues inside.
* ``search_metadata.custom_fields.owner.name``: free-form fields, as deep as they go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from pipestream.errors import MappingError
from pipestream.routing.cel_messages import from_message
from pipestream.routing.engine import DOCUMENT
from pipestream.routing.field_values import fill_value, kind_name, map_value, to_element, write_field
from pipestream.wire import PipeDoc

_STRUCT: Final = "google.protobuf.Struct"


@dataclass(frozen=True, slots=True)
class _Step:
    """One field of a path, and the key or index inside it, if the path names one."""

    field: FieldDescriptor
    key: str | int | None = None
    inside: tuple[str, ...] = ()
    """Names inside a Struct."""


def check_path(path: str) -> str | None:
    """Return the problem of a path, or None if every document has a place for it."""
    try:
        _steps(path)
    except MappingError as error:
        return str(error)
    return None


def get_field(document: PipeDoc, path: str) -> Any:
    """Read the value at ``path``, or None where the document has none.

    Lists and maps come as Python's, Structs as dicts, other messages as messages (not copies: do not change them).

    :raises MappingError: there is no such path.
    """
    value: Any = document
    for step in _steps(path):
        value = _read(value, step)
        if value is None:
            return None
    return value


def set_field(document: PipeDoc, path: str, value: Any) -> None:
    """Write ``value`` at ``path``, creating the messages on the way; None clears the field.

    :raises MappingError: there is no such path, or the value does not fit.
    """
    if value is None:
        _clear(document, path)
        return
    *way, last = _steps(path)
    try:
        _write(_reach(document, way), last, value)
    except (TypeError, ValueError, OverflowError) as error:  # the last for a number or a time that is too large
        raise MappingError(f"{path}: {error}") from None


@lru_cache(maxsize=4096)
def _steps(path: str) -> tuple[_Step, ...]:
    names = path.split(".")
    if not all(names):
        raise MappingError(f"{path!r} is not a field path such as search_metadata.title")
    message: Descriptor | None = DOCUMENT
    steps: list[_Step] = []
    at = 0
    while at < len(names):
        if message is None:
            raise MappingError(
                f"{path}: {'.'.join(names[:at])} is {kind_name(steps[-1].field)} and has no fields inside"
            )
        found = message.fields_by_name.get(names[at])
        if found is None:
            known = ", ".join(sorted(message.fields_by_name))
            raise MappingError(f"{path}: {message.name} has no field {names[at]}; it has {known}")
        step, used, message = _step(path, found, names[at + 1 :])
        steps.append(step)
        at += 1 + used
    return tuple(steps)


def _step(path: str, found: FieldDescriptor, rest: list[str]) -> tuple[_Step, int, Descriptor | None]:
    """The step into ``found``, how many names of the rest it uses, and the message in which the path continues."""
    inner = found.message_type
    if inner is not None and inner.GetOptions().map_entry:
        value = inner.fields_by_name["value"].message_type
        if not rest:
            return _Step(found), 0, None
        if value is None:
            return _Step(found, key=".".join(rest)), len(rest), None
        return _Step(found, key=rest[0]), 1, value
    if found.is_repeated:
        if not rest:
            return _Step(found), 0, None
        if not rest[0].isdecimal():
            raise MappingError(f"{path}: {found.name} is a list; after it comes a number, not {rest[0]!r}")
        return _Step(found, key=int(rest[0])), 1, inner
    if inner is not None and inner.full_name == _STRUCT:
        return _Step(found, inside=tuple(rest)), len(rest), None
    if inner is not None and inner.full_name.startswith("google.protobuf."):
        return _Step(found), 0, None
    return _Step(found), 0, inner


def _read(owner: Any, step: _Step) -> Any:
    found, name = step.field, step.field.name
    value = getattr(owner, name)
    if found.is_repeated:
        if not len(value):
            return None
        if step.key is None:
            return dict(value) if isinstance(value, Mapping) else list(value)
        if isinstance(step.key, str):
            return value.get(step.key)
        return value[step.key] if step.key < len(value) else None
    if not (owner.HasField(name) if found.has_presence else value != found.default_value):
        return None
    if found.message_type is not None and found.message_type.full_name == _STRUCT:
        return _inside(from_message(value), step.inside)
    return value


def _inside(value: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _reach(document: PipeDoc, way: list[_Step]) -> Any:
    """The message that holds the last field; it is created if it is missing."""
    owner: Any = document
    for step in way:
        container = getattr(owner, step.field.name)
        if isinstance(step.key, int):
            owner = _element(container, step.key, container.add)
        else:
            owner = container if step.key is None else container[step.key]
    return owner


def _element(container: Any, index: int, append: Callable[[], Any]) -> Any:
    if index > len(container):
        raise ValueError(f"the list has {len(container)} elements, so there is no place for element {index}")
    return append() if index == len(container) else container[index]


def _write(owner: Any, step: _Step, value: Any) -> None:
    found, name = step.field, step.field.name
    if step.inside:
        _write_inside(getattr(owner, name), step.inside, value)
    elif step.key is None:
        write_field(owner, found, value)
    elif isinstance(step.key, str):
        entry = map_value(found)
        if entry.message_type is not None:
            getattr(owner, name)[step.key].CopyFrom(to_element(entry, value))
        else:
            getattr(owner, name)[step.key] = to_element(entry, value)
    else:
        _write_element(getattr(owner, name), found, step.key, value)


def _write_element(container: Any, found: FieldDescriptor, index: int, value: Any) -> None:
    element = to_element(found, value)
    if isinstance(element, Message):
        _element(container, index, container.add).CopyFrom(element)
        return
    _element(container, index, lambda: container.append(element))
    container[index] = element


def _write_inside(struct: Any, names: tuple[str, ...], value: Any) -> None:
    *way, last = names
    for name in way:
        inner = struct.fields[name]
        if inner.WhichOneof("kind") not in (None, "struct_value"):
            raise ValueError(f"{name} is already a plain value, so nothing can be put inside it")
        struct = inner.struct_value
        struct.SetInParent()
    fill_value(struct.fields[last], value)


def _clear(document: PipeDoc, path: str) -> None:
    *way, last = _steps(path)
    owner: Any = document
    for step in way:
        owner = _read(owner, step)
        if owner is None:
            return
    if _read(owner, last) is None:
        return
    container = getattr(owner, last.field.name)
    if last.inside:
        _clear_inside(container, last.inside, path)
    elif last.key is None:
        owner.ClearField(last.field.name)
    else:
        del container[last.key]


def _clear_inside(struct: Any, names: tuple[str, ...], path: str) -> None:
    for name in names[:-1]:
        value = struct.fields[name]
        if value.WhichOneof("kind") != "struct_value":
            raise MappingError(f"{path}: an element of a list cannot be cleared")
        struct = value.struct_value
    del struct.fields[names[-1]]
