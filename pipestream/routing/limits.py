"""Refuse expressions that could use too much time or memory, before anything compiles or runs them."""

from __future__ import annotations

from typing import Final

import re2  # type: ignore[import-untyped]

from pipestream.routing.problems import ConditionProblem, ExpressionRefused, problem_at
from pipestream.routing.syntax import Call, Comprehension, Expr, Ident, ListOf, Literal, MapOf, children

MAX_COMPREHENSION_DEPTH: Final = 2
"""Comprehensions inside comprehensions: n elements cost n steps per level."""
MAX_GROWTH: Final = 1_000
"""Times that a value built by an expression may outgrow what the document holds."""
MAX_PATTERN_LENGTH: Final = 512
MAX_PATTERN_BYTES: Final = 1 << 20
"""Memory a compiled pattern may take. It bounds the work per character of text, too."""

_FUNCTIONS: Final = frozenset(
    {
        "_?_:_", "!_", "-_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_in_", "_+_", "_-_", "_*_", "_/_", "_%_",
        "_[_]", "size", "contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "string", "bytes",
        "bool", "timestamp", "duration", "dyn", "getFullYear", "getMonth", "getDate", "getDayOfMonth",
        "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
    }
)  # fmt: skip
"""The functions of both engines. With others, a graph would depend on where it runs."""


def check_limits(text: str, expr: Expr) -> None:
    """Refuse an expression that breaks a limit.

    :raises ExpressionRefused: with every limit it breaks.
    """
    problems: list[ConditionProblem] = []
    _check_tree(text, expr, 0, problems)
    if not problems:
        _check_growth(text, expr, problems)
    if problems:
        raise ExpressionRefused(problems)


def _check_tree(text: str, expr: Expr, comprehensions: int, problems: list[ConditionProblem]) -> None:
    if isinstance(expr, Comprehension):
        if comprehensions == MAX_COMPREHENSION_DEPTH:
            message = f"{expr.macro}() is nested more than {MAX_COMPREHENSION_DEPTH} deep"
            problems.append(problem_at(text, expr.offset, message))
            return
        _check_tree(text, expr.range, comprehensions, problems)
        for part in (expr.condition, expr.body):
            if part is not None:
                _check_tree(text, part, comprehensions + 1, problems)
        return
    if isinstance(expr, MapOf) and len(expr.entries) > 1:
        kinds = {type(key.value) if isinstance(key, Literal) else None for key, _ in expr.entries}
        if None in kinds or len(kinds) > 1:
            # Engines differ on whether 1, 1u and true are the same key.
            problems.append(problem_at(text, expr.offset, "the keys of a map must be literals of one type"))
    if isinstance(expr, Call):
        if expr.name not in _FUNCTIONS:
            message = f"there is no function {expr.name}(), or an expression may not use it"
            problems.append(problem_at(text, expr.offset, message))
        elif expr.name == "matches" and len(expr.args) == 2:
            _check_pattern(text, expr, problems)
    for child in children(expr):
        _check_tree(text, child, comprehensions, problems)


def _check_pattern(text: str, call: Call, problems: list[ConditionProblem]) -> None:
    pattern = call.args[1]
    if not isinstance(pattern, Literal):
        message = "the pattern of matches() must be written out, not taken from a document"
        problems.append(problem_at(text, call.offset, message))
        return
    if not isinstance(pattern.value, str):
        return
    if len(pattern.value) > MAX_PATTERN_LENGTH:
        message = f"the pattern has {len(pattern.value)} characters; at most {MAX_PATTERN_LENGTH} are allowed"
        problems.append(problem_at(text, pattern.offset, message))
        return
    options = re2.Options()
    options.max_mem = MAX_PATTERN_BYTES
    options.log_errors = False
    try:
        re2.compile(pattern.value, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
        problems.append(problem_at(text, pattern.offset, f"bad pattern: {reason}"))


def _check_growth(text: str, expr: Expr, problems: list[ConditionProblem]) -> None:
    try:
        _growth(expr, {})
    except _TooBigError as error:
        message = "the value built here can outgrow the document without bound; build less, compare more"
        problems.append(problem_at(text, error.offset, message))


class _TooBigError(Exception):
    def __init__(self, offset: int) -> None:
        self.offset = offset
        super().__init__()


def _growth(expr: Expr, scope: dict[str, int]) -> int:
    """An upper bound on the size of a value, in units of what the document holds.

    ``l + l`` doubles, and comprehensions multiply by what their variable has grown to, so chained doublings
    multiply here as they would in memory.
    """
    match expr:
        case Ident(name):
            return scope.get(name, 1)
        case Comprehension():
            size = _growth(expr.range, scope)
            inner = {**scope, expr.variable: size}
            if expr.condition is not None:
                _growth(expr.condition, inner)
            body = _growth(expr.body, inner)
            found = size * body if expr.macro == "map" else size if expr.macro == "filter" else 1
        case ListOf() | MapOf():
            found = sum(_growth(child, scope) for child in children(expr))
        case Call("_+_" | "_?_:_", args):
            found = sum(_growth(arg, scope) for arg in args)
        case Call("_[_]" | "string" | "bytes" | "dyn", args):
            found = max(_growth(arg, scope) for arg in args) if args else 1
        case _:
            sizes = [_growth(child, scope) for child in children(expr)]
            # A field of an element is not larger than the element; every other result is a number or a boolean.
            found = sizes[0] if len(sizes) == 1 and not isinstance(expr, Call) else 1
    if found > MAX_GROWTH:
        raise _TooBigError(expr.offset)
    return found
