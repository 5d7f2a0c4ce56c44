"""Modules that are Python callables, run in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable, TransientError
from pipestream.modules.deadline import DeadlineExceeded, TooManyHanging, call_with_deadline
from pipestream.modules.declare import declared_profile
from pipestream.modules.module import Answer, ModuleProfile
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipestream.modules.module import ModuleContext

MAX_FAN_OUT = 10_000
"""Documents one call may return. A generator that never ends would fill the memory before its timeout."""
_MAX_MESSAGE_LENGTH = 500
# By function. Of the whole process, as the state is that a function may keep in its package: streams and engines have
# many threads, and each opens its modules for itself.
_TURNS: dict[str, threading.Lock] = {}


class CallableModule:
    """Calls ``function(document, context)``, which returns a document, an iterable of them, None, or an ``Answer``.

    The function gets a copy of the document and may change it. It is called for one document at a time in a process,
    unless it declares that it is concurrent. It is stopped after ``context.timeout_s``;
    ``pipestream.modules.deadline`` says what that can and cannot stop. A function that ends the process
    (``os._exit``, a crash in native code) ends the drain's task with it: name such code ``runtime:``.
    """

    def __init__(self, function: Callable[[PipeDoc, ModuleContext], Any], spec: str) -> None:
        self._function = function
        self._spec = spec
        is_concurrent = declared_profile(function).is_concurrent
        self._turn = nullcontext() if is_concurrent else _TURNS.setdefault(spec, threading.Lock())

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc] | Answer:
        own = PipeDoc()
        own.CopyFrom(document)
        try:
            with self._turn:  # before the time of the call begins
                return call_with_deadline(lambda: self._collect(self._function(own, context)), context.timeout_s)
        except DeadlineExceeded:
            raise ModuleTimeout(f"{self._spec} took longer than {context.timeout_s:g} s") from None
        except TooManyHanging:
            raise ModuleUnavailable(
                f"{self._spec}: too many earlier calls still hang in this process; restart it"
            ) from None
        except (TransientError, ModuleFailed):
            raise
        except (Exception, SystemExit) as error:
            raise ModuleFailed(f"{self._spec}: {describe(error)}") from error

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:  # noqa: ARG002
        """Return what ``declare_module`` said about the function."""
        return declared_profile(self._function)

    def close(self) -> None:
        """A callable holds nothing."""

    def _collect(self, answer: Any) -> Sequence[PipeDoc] | Answer:
        if isinstance(answer, Answer):
            return replace(answer, documents=self._documents(answer.documents))
        return self._documents(answer)

    def _documents(self, answer: Any) -> list[PipeDoc]:
        if answer is None:
            return []
        if isinstance(answer, PipeDoc):
            return [answer]
        if isinstance(answer, (str, bytes, dict)) or not isinstance(answer, Iterable):
            raise ModuleFailed(
                f"{self._spec} returned {type(answer).__name__}; "
                "expected a PipeDoc, an iterable of them, None or an Answer"
            )
        documents: list[PipeDoc] = []
        for item in answer:
            if not isinstance(item, PipeDoc):
                raise ModuleFailed(
                    f"{self._spec}: item {len(documents)} of its answer is {type(item).__name__}, not PipeDoc"
                )
            if len(documents) == MAX_FAN_OUT:
                raise ModuleFailed(f"{self._spec} returned more than {MAX_FAN_OUT} documents for one")
            # A generator may change and yield the same object again and again.
            documents.append(PipeDoc())
            documents[-1].CopyFrom(item)
        return documents


def describe(error: BaseException) -> str:
    """Return an error's type and message, short enough for a header or a table."""
    message = str(error)
    if len(message) > _MAX_MESSAGE_LENGTH:
        message = message[:_MAX_MESSAGE_LENGTH] + "…"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
