"""The engine by ``cel-expr-python``: Google's C++ core, with its type checker."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, Final

from cel_expr_python import cel
from google.protobuf import descriptor_pool

from pipestream.routing.engine import CONTAINER, DOCUMENT, STREAM, VARIABLES, Activation, Bind, EvaluationError, Program
from pipestream.routing.plain import plain_value
from pipestream.routing.problems import ConditionProblem, problem_at, problem_on
from pipestream.routing.projection import copier, uses_of
from pipestream.routing.syntax import Expr
from pipestream.wire import PipeDoc, PipeStream

_PLACE: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_UNKNOWN_FIELD: Final = re.compile(r"undefined field '(\w+)' not found in struct '(\w+)'")
_STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


class CelExprEngine:
    """Checks against the protobuf descriptors and evaluates in C++."""

    name = "cel-expr"

    def __init__(self) -> None:
        self._env: Any = cel.NewEnv(
            descriptor_pool=descriptor_pool.Default(),
            variables={name: cel.Type(message.full_name) for name, message in VARIABLES.items()},
            container=CONTAINER,
        )

    def check(self, text: str, *, boolean: bool) -> list[ConditionProblem]:
        try:
            compiled = self._env.compile(text)
        except RuntimeError as error:
            return _problems(text, str(error))
        found = compiled.return_type().name()
        if not boolean or found == "BOOL":
            return []
        start = len(text) - len(text.lstrip())
        hint = "; its type is known only when it runs, so compare it, as in … == true" if found == "DYN" else ""
        return [problem_at(text, start, f"the result must be true or false, not {_type_name(found)}{hint}")]

    def compile(self, text: str) -> Program:
        compiled = self._env.compile(text)
        evaluate, gives_boolean = compiled.eval, compiled.return_type() == cel.Type.BOOL
        error_type = cel.Type.ERROR

        def run(activation: Activation) -> Any:
            try:
                value = evaluate(activation)
            except RuntimeError as error:
                raise EvaluationError(_STATUS.sub("", str(error))) from None
            if gives_boolean and ((truth := value.value()) is True or truth is False):
                return truth
            # A failed evaluation comes back as a value, a truthy text.
            if value.type() == error_type:
                raise EvaluationError(_STATUS.sub("", str(value.value())))
            return plain_value(_to_python(value))

        return run

    def binder(self, expressions: Sequence[Expr]) -> Bind:
        found = uses_of(expressions, VARIABLES)
        uses = found.uses
        # doc and document are the same message, so one copy serves both names.
        for name, use in uses["document"].fields.items():
            _merge(uses["doc"].fields.setdefault(name, type(use)()), use)
        uses["doc"].whole |= uses["document"].whole
        copy_document = copier(DOCUMENT, uses["doc"])
        copy_stream = copier(STREAM, uses["stream"])
        new_activation = self._env.Activation

        def bind(stream: PipeStream, document: PipeDoc) -> Activation:
            small_document, small_stream = PipeDoc(), PipeStream()
            copy_document(document, small_document)
            copy_stream(stream, small_stream)
            return new_activation({"doc": small_document, "document": small_document, "stream": small_stream})

        return bind


def _to_python(value: Any) -> Any:
    """Return a value of the engine as Python's own.

    A null must not be converted by the engine, alone or in a list or a map: each time takes one reference to ``None``
    that it does not own (0.1.3). After some ten thousand documents ``None`` is freed, which aborts Python 3.11.
    """
    if value.type() == cel.Type.NULL:
        return None
    found = value.value()
    if isinstance(found, list):
        return [_to_python(each) for each in found]
    if isinstance(found, dict):
        return {key: _to_python(each) for key, each in found.items()}
    return found


def _merge(into: Any, use: Any) -> None:
    into.whole |= use.whole
    for name, inner in use.fields.items():
        _merge(into.fields.setdefault(name, type(inner)()), inner)


def _problems(text: str, message: str) -> list[ConditionProblem]:
    found = [
        problem_on(text, int(line), int(column), _readable(what)) for line, column, what in _PLACE.findall(message)
    ]
    return list(dict.fromkeys(found)) or [problem_at(text, 0, _STATUS.sub("", message))]


def _readable(message: str) -> str:
    message = message.replace(f"{CONTAINER}.", "").replace(f" (in container '{CONTAINER}')", "")
    # The list of every token that could have come next does not help.
    message = re.sub(r" expecting \{.*\}$", "", message).replace("'<EOF>'", "the end")
    return _UNKNOWN_FIELD.sub(lambda found: f"{found[0]}{_suggest(found[1], found[2])}", message)


def _suggest(field: str, struct: str) -> str:
    """Return the field of a message that was probably meant, as a hint."""
    try:
        known = descriptor_pool.Default().FindMessageTypeByName(f"{CONTAINER}.{struct}").fields_by_name
    except KeyError:
        return ""
    close = difflib.get_close_matches(field, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _type_name(name: str) -> str:
    return name.replace(f"{CONTAINER}.", "") if "." in name else name.lower()
