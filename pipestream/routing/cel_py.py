"""The engine in pure Python, for platforms that have no ``cel-expr-python``.

celpy parses; its evaluator is not used, because its ``has()`` means "did not fail", its macros swallow errors
and it copies messages into dicts. Expressions become closures over the messages themselves instead, which
read only the fields they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor_pool import Default as default_pool  # noqa: N813

from pipestream.routing.cel_functions import FUNCTIONS
from pipestream.routing.cel_messages import has, select
from pipestream.routing.cel_values import MISSING, find_key, no_overload
from pipestream.routing.engine import CONTAINER, MAX_ITERATIONS, VARIABLES, Activation, Bind, EvaluationError, Program
from pipestream.routing.literals import Uint
from pipestream.routing.plain import plain_value
from pipestream.routing.problems import ConditionProblem, ExpressionRefused, problem_at
from pipestream.routing.projection import uses_of
from pipestream.routing.result_type import gives_boolean
from pipestream.routing.syntax import (
    Call,
    Comprehension,
    Expr,
    Has,
    Ident,
    ListOf,
    Literal,
    Logical,
    MapOf,
    Select,
    parse,
)
from pipestream.wire import PipeDoc, PipeStream


class _Frame:
    """The variables of one evaluation, and the comprehension steps it has left."""

    __slots__ = ("steps_left", "values")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.steps_left = MAX_ITERATIONS


class _BudgetSpentError(Exception):
    """Not an EvaluationError, so that ``||`` cannot hide it."""


_Run = Callable[[_Frame], Any]
_Names = Mapping[str, str]
"""The variables in sight, by name, and the slot of the frame that holds each."""


class CelPyEngine:
    """Evaluates in Python. Checks syntax, names and field paths, but not the types of operands."""

    name = "celpy"

    def check(self, text: str, *, boolean: bool) -> list[ConditionProblem]:
        try:
            expr = parse(text)
            _Compiler(text).compile(expr)
        except ExpressionRefused as refused:
            return refused.problems
        complaints = uses_of([expr], VARIABLES).complaints
        problems = [problem_at(text, complaint.offset, complaint.message) for complaint in complaints]
        if boolean and not problems and not gives_boolean(expr):
            start = len(text) - len(text.lstrip())
            problems.append(problem_at(text, start, "the result must be true or false; compare it"))
        return problems

    def compile(self, text: str) -> Program:
        run = _Compiler(text).compile(parse(text))

        def evaluate(activation: Activation) -> Any:
            try:
                return plain_value(run(_Frame(dict(activation))))
            except _BudgetSpentError:
                raise EvaluationError("Iteration budget exceeded") from None

        return evaluate

    def binder(self, expressions: Sequence[Expr]) -> Bind:  # noqa: ARG002 - closures read fields when they need them
        def bind(stream: PipeStream, document: PipeDoc) -> Activation:
            return {"doc": document, "document": document, "stream": stream}

        return bind


class _Compiler:
    def __init__(self, text: str) -> None:
        self._text = text

    def compile(self, expr: Expr) -> _Run:
        return self._of(expr, {name: name for name in VARIABLES})

    def _of(self, expr: Expr, names: _Names) -> _Run:
        match expr:
            case Literal(value):
                return lambda _frame: value
            case Ident(name) if name in names:
                slot = names[name]
                return lambda frame: frame.values[slot]
            case Ident() | Select() if (number := self._constant(expr, names)) is not None:
                return lambda _frame: number
            case Ident(name, offset):
                raise ExpressionRefused([problem_at(self._text, offset, f"undeclared reference to {name!r}")])
            case Select(operand, field) | Has(operand, field):
                inner, read = self._of(operand, names), has if isinstance(expr, Has) else select
                return lambda frame: read(inner(frame), field)
            case Logical():
                return self._logical(expr, names)
            case ListOf(items):
                parts = [self._of(item, names) for item in items]
                return lambda frame: [part(frame) for part in parts]
            case MapOf():
                return self._map(expr, names)
            case Call():
                return self._call(expr, names)
            case Comprehension():
                return self._comprehension(expr, names)

    def _constant(self, expr: Expr, names: _Names) -> int | None:
        """The number that a name such as ``ChecksumType.CHECKSUM_TYPE_MD5`` stands for."""
        path: list[str] = []
        while isinstance(expr, Select):
            path.insert(0, expr.field)
            expr = expr.operand
        if not isinstance(expr, Ident) or expr.name in names or not path:
            return None
        path.insert(0, expr.name)
        packages = CONTAINER.split(".")
        for size in range(len(packages), -1, -1):
            enum_name = ".".join([*packages[:size], *path[:-1]])
            try:
                return int(default_pool().FindEnumTypeByName(enum_name).values_by_name[path[-1]].number)
            except KeyError:
                continue
        return None

    def _call(self, expr: Call, names: _Names) -> _Run:
        args = [self._of(arg, names) for arg in expr.args]
        if expr.name == "_?_:_":
            return _conditional(*args)
        function = FUNCTIONS.get(expr.name)
        if function is None:
            raise ExpressionRefused([problem_at(self._text, expr.offset, f"there is no function {expr.name}()")])
        if len(args) == 1:
            (only,) = args
            return lambda frame: function(only(frame))
        if len(args) == 2:
            left, right = args
            return lambda frame: function(left(frame), right(frame))
        message = f"{expr.name}() does not take {len(args)} arguments"
        raise ExpressionRefused([problem_at(self._text, expr.offset, message)])

    def _logical(self, expr: Logical, names: _Names) -> _Run:
        operands = [self._of(operand, names) for operand in expr.operands]
        decisive = expr.operator == "||"
        return lambda frame: _settle(decisive, (_attempt(operand, frame) for operand in operands), expr.operator)

    def _map(self, expr: MapOf, names: _Names) -> _Run:
        parts = [(self._of(key, names), self._of(value, names)) for key, value in expr.entries]

        def run(frame: _Frame) -> dict[Any, Any]:
            built: dict[Any, Any] = {}
            for key_of, value_of in parts:
                key = key_of(frame)
                if type(key) not in _KEY_TYPES:
                    raise no_overload("map key", key)
                if find_key(built, key) is not MISSING:
                    raise EvaluationError(f"duplicate key in map: {key!r}")
                built[key] = value_of(frame)
            return built

        return run

    def _comprehension(self, expr: Comprehension, names: _Names) -> _Run:
        # One slot per level of nesting: a variable may have the name of an outer one.
        slot = f"{expr.variable}@{len(names)}"
        inner = {**names, expr.variable: slot, slot: slot}
        elements = _elements(self._of(expr.range, names), slot, expr.macro)
        body = self._of(expr.body, inner)
        condition = None if expr.condition is None else self._of(expr.condition, inner)
        return _macro(expr.macro, elements, body, condition)


_KEY_TYPES = frozenset({bool, int, str, Uint})


def _conditional(test: _Run, then: _Run, otherwise: _Run) -> _Run:
    def run(frame: _Frame) -> Any:
        chosen = test(frame)
        if type(chosen) is not bool:
            raise no_overload("?:", chosen)
        return then(frame) if chosen else otherwise(frame)

    return run


def _attempt(run: _Run, frame: _Frame) -> Any:
    try:
        return run(frame)
    except EvaluationError as error:
        return error


def _settle(decisive: bool, outcomes: Iterable[Any], operator: str) -> bool:
    """CEL's ``&&`` and ``||``: one decisive operand gives the result, even if another operand fails."""
    failure: EvaluationError | None = None
    for outcome in outcomes:
        if outcome is decisive:
            return bool(decisive)
        if isinstance(outcome, EvaluationError):
            failure = failure or outcome
        elif type(outcome) is not bool:
            failure = failure or no_overload(operator, outcome)
    if failure is not None:
        raise failure
    return not decisive


def _elements(range_of: _Run, slot: str, macro: str) -> Callable[[_Frame], Any]:
    """Iterate over a list's elements or a map's keys. Each is bound to the variable and counts as a step."""

    def iterate(frame: _Frame) -> Any:
        values = range_of(frame)
        if type(values) not in (list, dict):
            raise no_overload(macro, values)
        for value in values:
            frame.steps_left -= 1
            if frame.steps_left < 0:
                raise _BudgetSpentError
            frame.values[slot] = value
            yield value

    return iterate


def _macro(macro: str, elements: Callable[[_Frame], Any], body: _Run, condition: _Run | None) -> _Run:
    def settle(frame: _Frame) -> bool:
        return _settle(macro == "exists", (_attempt(body, frame) for _ in elements(frame)), macro)

    def truth(run: _Run, frame: _Frame) -> bool:
        found = run(frame)
        if isinstance(found, bool):
            return found
        raise no_overload(macro, found)

    def exists_one(frame: _Frame) -> bool:
        return sum(truth(body, frame) for _ in elements(frame)) == 1

    def filtered(frame: _Frame) -> list[Any]:
        return [value for value in elements(frame) if truth(body, frame)]

    def mapped(frame: _Frame) -> list[Any]:
        return [body(frame) for _ in elements(frame) if condition is None or truth(condition, frame)]

    return {"all": settle, "exists": settle, "exists_one": exists_one, "filter": filtered, "map": mapped}[macro]
