"""What a CEL engine does for the rest of the product, and how to open one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

# Loading them puts them in the descriptor pool, so that an Any holding one unpacks whatever else is imported.
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2  # noqa: F401

from pipestream.errors import SettingsInvalid
from pipestream.routing.problems import ConditionProblem
from pipestream.routing.syntax import Expr
from pipestream.wire import PipeDoc, PipeStream

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

CONTAINER: Final = PipeDoc.DESCRIPTOR.file.package
"""Names of this package, such as ``ChecksumType.CHECKSUM_TYPE_SHA256``, need no prefix in an expression."""

DOCUMENT: Final = cast("Descriptor", PipeDoc.DESCRIPTOR)
STREAM: Final = cast("Descriptor", PipeStream.DESCRIPTOR)
VARIABLES: Final = {"doc": DOCUMENT, "document": DOCUMENT, "stream": STREAM}
MAX_ITERATIONS: Final = 9_999
"""Steps of all comprehensions in one evaluation; Google's engine fails at the next, so celpy does too."""

Activation = Any
"""One document and its stream, bound for evaluation; only the engine that made it can use it."""

Program = Callable[[Activation], Any]
"""A compiled expression: gives its value as plain Python, or raises EvaluationError."""

Bind = Callable[[PipeStream, PipeDoc], Activation]


class EvaluationError(Exception):
    """An expression failed on a document; callers add which expression it was."""


class Engine(Protocol):
    """Compiles and evaluates CEL. Engines hold no document and may be shared by threads."""

    name: str

    def check(self, text: str, *, boolean: bool) -> list[ConditionProblem]:
        """Everything wrong with the types of an expression whose syntax is known to be good."""
        ...

    def compile(self, text: str) -> Program:
        """Make a checked expression ready to run."""
        ...

    def binder(self, expressions: Sequence[Expr]) -> Bind:
        """Make the function that binds documents for programs of just these expressions."""
        ...


@cache
def open_engine(name: str) -> Engine:
    """Open the engine a setting names.

    :raises SettingsInvalid: there is no such engine, or it is not installed here.
    """
    if name == "celpy":
        from pipestream.routing.cel_py import CelPyEngine

        return CelPyEngine()
    if name != "cel-expr":
        raise SettingsInvalid(f"{name!r} is not a CEL engine; use cel-expr, or celpy where cel-expr has no package")
    try:
        from pipestream.routing.cel_expr import CelExprEngine
    except ImportError as error:
        raise SettingsInvalid(
            f"the CEL engine cel-expr cannot be loaded here ({error}); install cel-expr-python, or choose celpy"
        ) from error
    return CelExprEngine()


def open_checker() -> Engine:
    """Open the engine that checks expressions, which may not be the one that evaluates them: Google's if installed.

    celpy has no type checker, so alone it checks names and field paths but not operand types.
    """
    try:
        return open_engine("cel-expr")
    except SettingsInvalid:
        return open_engine("celpy")


def checks_types() -> bool:
    """Whether the types of operands are checked here."""
    return open_checker().name == "cel-expr"
