"""Simple conditions as Python functions that read the message itself.

Most conditions compare a field with a literal. Google's engine needs a copy of the fields in C++ first, which takes
longer than the comparison. So what cannot fail and has one meaning in both languages runs here: comparisons of a field
with a literal of its own type, ``startsWith``, ``endsWith``, ``contains``, ``in``, ``has``, a boolean field, and
``!``, ``&&`` and ``||`` of these. Every other expression is for the CEL engine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from pipestream.routing.literals import Uint
from pipestream.routing.projection import is_well_known
from pipestream.routing.syntax import Call, Expr, Has, Ident, Literal, Logical, Select, children
from pipestream.wire import PipeDoc, PipeStream

Quick = Callable[[PipeStream, PipeDoc], bool]
"""Tells whether a condition holds. It never fails."""

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "_==_": operator.eq,
    "_!=_": operator.ne,
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_MIRRORED: Final = {"_<_": "_>_", "_<=_": "_>=_", "_>_": "_<_", "_>=_": "_<=_"}
_TEXT_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}

_Field = FieldDescriptor
_TYPES: Final[Mapping[int, type]] = {
    _Field.CPPTYPE_STRING: str,
    _Field.CPPTYPE_BOOL: bool,
    _Field.CPPTYPE_INT32: int,
    _Field.CPPTYPE_INT64: int,
    _Field.CPPTYPE_ENUM: int,
    _Field.CPPTYPE_UINT32: Uint,
    _Field.CPPTYPE_UINT64: Uint,
    _Field.CPPTYPE_FLOAT: float,
    _Field.CPPTYPE_DOUBLE: float,
}
_STREAM: Final = "stream"


def quick_program(expr: Expr, variables: Mapping[str, Descriptor]) -> Quick | None:
    """Return the function for a condition that has passed the checks; None: only a CEL engine can evaluate it."""
    match expr:
        case Literal(value=bool() as truth):
            return lambda _stream, _document: bool(truth)
        case Logical(operator=operator_, operands=operands):
            return _logical(operator_, [quick_program(each, variables) for each in operands])
        case Call("!_", (operand,)):
            inner = quick_program(operand, variables)
            return (lambda stream, document: not inner(stream, document)) if inner else None
        case Has(operand, name):
            return _has(_path_to(Select(operand, name, 0), variables))
        case Select():
            path = _path_to(expr, variables)
            return path.test(bool) if path is not None and path.type_ is bool else None
        case Call("_in_", (Literal(value=value), operand)):
            return _in(value, _path_to(operand, variables))
        case Call(name, (operand, Literal(value=value))) if name in _COMPARISONS:
            return _compare(name, _path_to(operand, variables), value)
        case Call(name, (Literal(value=value), operand)) if name in _COMPARISONS:
            return _compare(_MIRRORED.get(name, name), _path_to(operand, variables), value)
        case Call(name, (operand, Literal(value=str() as value))) if name in _TEXT_TESTS:
            path, test = _path_to(operand, variables), _TEXT_TESTS[name]
            if path is not None and path.type_ is str:
                return path.test(lambda found: test(found, value))
    return None


def reads_stream(expr: Expr) -> bool:
    """Tell whether a condition depends on the stream, and not on the document alone."""
    return (isinstance(expr, Ident) and expr.name == _STREAM) or any(map(reads_stream, children(expr)))


class _Path:
    """A field inside of a variable, reached through messages only."""

    def __init__(self, variable: str, names: list[str], field: FieldDescriptor) -> None:
        self.is_of_stream = variable == _STREAM
        self.names = names
        self.field = field

    @property
    def type_(self) -> type | None:
        """Return which literals the field can be compared with; None: none."""
        return None if self.field.is_repeated else _type_of(self.field)

    def test(self, holds: Callable[[Any], bool], names: list[str] | None = None) -> Quick:
        """Return a condition over the field's value, or over that of another path of the same variable."""
        names = self.names if names is None else names
        get: Callable[[Any], Any] = attrgetter(".".join(names)) if names else lambda message: message
        if self.is_of_stream:
            return lambda stream, _document: holds(get(stream))
        return lambda _stream, document: holds(get(document))


def _path_to(expr: Expr, variables: Mapping[str, Descriptor]) -> _Path | None:
    names: list[str] = []
    while isinstance(expr, Select):
        names.insert(0, expr.field)
        expr = expr.operand
    if not isinstance(expr, Ident) or expr.name not in variables or not names:
        return None
    message: Descriptor | None = variables[expr.name]
    field: FieldDescriptor | None = None
    for name in names:
        # A Struct, a Timestamp or a wrapper is a value of its own in CEL. Elements of lists and maps may be missing.
        if message is None or is_well_known(message) or (field is not None and field.is_repeated):
            return None
        field = message.fields_by_name.get(name)
        if field is None:
            return None
        message = field.message_type
    assert field is not None
    return _Path(expr.name, names, field)


def _type_of(field: FieldDescriptor) -> type | None:
    # Texts and bytes share a type in C++.
    return None if field.type == _Field.TYPE_BYTES else _TYPES.get(field.cpp_type)


def _logical(operator_: str, parts: list[Quick | None]) -> Quick | None:
    quick = [part for part in parts if part is not None]
    if len(quick) != len(parts):
        return None
    if operator_ == "&&":
        return lambda stream, document: all(part(stream, document) for part in quick)
    return lambda stream, document: any(part(stream, document) for part in quick)


def _compare(name: str, path: _Path | None, value: Any) -> Quick | None:
    if path is None or type(value) is not path.type_:
        return None
    compare = _COMPARISONS[name]
    return path.test(lambda found: compare(found, value))


def _in(value: Any, path: _Path | None) -> Quick | None:
    if path is None or not path.field.is_repeated:
        return None
    field, message = path.field, path.field.message_type
    if message is not None:
        if not message.GetOptions().map_entry:
            return None
        field = message.fields_by_name["key"]
    # A double would need care: NaN is in no list.
    if type(value) is not _type_of(field) or type(value) is float:
        return None
    return path.test(lambda found: value in found)


def _has(path: _Path | None) -> Quick | None:
    if path is None:
        return None
    field, name = path.field, path.names[-1]
    if field.has_presence:
        return path.test(lambda holder: holder.HasField(name), path.names[:-1])
    # A double would need care: -0.0 is not the default.
    return None if _type_of(field) is float else path.test(bool)
