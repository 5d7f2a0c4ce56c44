"""Decide whether an expression gives a boolean, as far as possible without a type checker."""

from __future__ import annotations

from typing import Final

from pipestream.routing.engine import VARIABLES
from pipestream.routing.syntax import Call, Comprehension, Expr, Has, Ident, Literal, Logical, Select

_BOOLEAN_CALLS: Final = frozenset(
    {
        "!_",
        "_==_",
        "_!=_",
        "_<_",
        "_<=_",
        "_>_",
        "_>=_",
        "_in_",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "bool",
    }
)


def gives_boolean(expr: Expr) -> bool:
    """Whether an expression is sure to give true or false, or to fail."""
    match expr:
        case Literal(value):
            return isinstance(value, bool)
        case Logical() | Has():
            return True
        case Call("_?_:_", (_, then, otherwise)):
            return gives_boolean(then) and gives_boolean(otherwise)
        case Call(name):
            return name in _BOOLEAN_CALLS
        case Comprehension(macro):
            return macro in ("all", "exists", "exists_one")
        case Select():
            return _is_boolean_field(expr)
    return False


def _is_boolean_field(expr: Select) -> bool:
    path: list[str] = []
    operand: Expr = expr
    while isinstance(operand, Select):
        path.insert(0, operand.field)
        operand = operand.operand
    message = VARIABLES.get(operand.name) if isinstance(operand, Ident) else None
    for name in path[:-1]:
        found = message.fields_by_name.get(name) if message is not None else None
        message = found.message_type if found is not None and not found.is_repeated else None
    last = message.fields_by_name.get(path[-1]) if message is not None else None
    return last is not None and not last.is_repeated and last.cpp_type == last.CPPTYPE_BOOL
