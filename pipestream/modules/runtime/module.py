"""A Python function in processes of its own, which this process starts, watches and ends.

A process works on one document at a time. So when it dies or hangs, one document has failed and no other: it is tried
again in a new process, and fails for good after the node's attempts, as with every module that is unavailable.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from pipestream.errors import GraphInvalid, ModuleFailed, ModuleTimeout, ModuleUnavailable, Problem
from pipestream.modules.exchange import exchange
from pipestream.modules.module import ModuleProfile
from pipestream.modules.runtime.handler import PROFILE
from pipestream.modules.runtime.process import RuntimeProcess
from pipestream.modules.unix import SocketModule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.modules.module import Answer, ModuleContext
    from pipestream.plugins import PluginContext
    from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
# A process that closed its connection without an answer is about to end.
_DYING_S = 2.0


class RuntimeModule:
    """Owns up to ``processes`` processes, started as documents need them. Threads may share it."""

    def __init__(self, target: str, *, processes: int = 2, memory_mb: int = 0, start_timeout_s: float = 60.0) -> None:
        self._target = target
        self._spec = f"runtime:{target}"
        self._processes = processes
        self._memory_mb = memory_mb
        self._start_timeout_s = start_timeout_s
        self._changed = threading.Condition()
        self._idle: list[RuntimeProcess] = []
        self._all: list[RuntimeProcess] = []
        self._starting = 0
        self._deaths_in_row = 0
        self._not_before = 0.0
        self._closed = False
        self._profile: ModuleProfile | None = None
        self._owner = os.getpid()
        _EVERY.add(self)

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc] | Answer:
        """Have a process work on the document. The time to start one does not count."""
        runtime = self._take(max(context.timeout_s, self._start_timeout_s))
        answered = False
        try:
            answer = SocketModule(str(runtime.socket), self._spec, with_context=True).process(document, context)
            answered = True
        except ModuleTimeout:
            raise ModuleTimeout(
                f"{self._spec} took longer than {context.timeout_s:g} s; its process was ended"
            ) from None
        except ModuleUnavailable as error:
            if not isinstance(error.__cause__, OSError):
                answered = True  # the function itself asks for another attempt
                raise
            if runtime.ends_within(_DYING_S):
                raise ModuleUnavailable(f"{self._spec}: its process {runtime.describe_end()}") from error
            raise
        except ModuleFailed:
            answered = True
            raise
        finally:
            self._give_back(runtime, usable=answered)
        return answer

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:  # noqa: ARG002 - the protocol's
        """Return what the function declares about itself, which its process is asked once.

        :raises ModuleUnavailable: no process could be started.
        :raises ModuleFailed: the function is not there.
        """
        if self._profile is None:
            self._profile = self._ask_profile()
        return self._profile

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            self._closed = True
            ending, self._all, self._idle = self._all, [], []
            self._changed.notify_all()
        if os.getpid() == self._owner:
            for runtime in ending:
                runtime.end()
        _EVERY.discard(self)

    @property
    def pids(self) -> list[int]:
        """Return the processes that are owned now."""
        with self._changed:
            return [runtime.pid for runtime in self._all]

    def after_fork(self) -> None:
        """Give up the processes of the parent: a fork starts its own."""
        for runtime in self._all:
            runtime.forget()
        self._changed = threading.Condition()
        self._idle, self._all, self._starting = [], [], 0
        self._owner = os.getpid()

    def _take(self, timeout_s: float) -> RuntimeProcess:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                if self._closed:
                    raise ModuleUnavailable(f"{self._spec} is closed")
                if self._idle:
                    runtime = self._idle.pop()
                    if not runtime.ends_within(0):
                        return runtime
                    log.warning("%s: its idle process %s", self._spec, runtime.describe_end())
                    self._drop(runtime)
                    continue
                pause_s = self._not_before - time.monotonic()
                if len(self._all) + self._starting < self._processes and pause_s <= 0:
                    self._starting += 1
                    break
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise ModuleUnavailable(f"{self._spec}: no process was free within {timeout_s:g} s")
                self._changed.wait(min(left_s, pause_s) if pause_s > 0 else left_s)
        return self._start()

    def _start(self) -> RuntimeProcess:
        runtime = None
        try:
            runtime = RuntimeProcess(self._target, self._memory_mb)
            runtime.wait_until_ready(self._start_timeout_s)
        except BaseException:
            if runtime is not None:
                runtime.end()
            with self._changed:
                self._starting -= 1
                self._note_death()
                self._changed.notify_all()
            raise
        with self._changed:
            self._starting -= 1
            if not self._closed:
                self._all.append(runtime)
                return runtime
        runtime.end()
        raise ModuleUnavailable(f"{self._spec} is closed")

    def _give_back(self, runtime: RuntimeProcess, *, usable: bool) -> None:
        if not usable:
            runtime.end()  # before the lock is taken: other threads need not wait for it
        with self._changed:
            if usable and runtime in self._all:
                self._deaths_in_row = 0
                self._idle.append(runtime)
            else:
                self._drop(runtime)
                self._note_death()
            self._changed.notify_all()

    def _drop(self, runtime: RuntimeProcess) -> None:
        runtime.end()
        if runtime in self._all:
            self._all.remove(runtime)

    def _note_death(self) -> None:
        """Start the next process at once after one death, and ever later after several in a row."""
        self._deaths_in_row += 1
        if self._deaths_in_row > 1:
            pause_s = min(_FIRST_PAUSE_S * 2 ** (self._deaths_in_row - 2), _LONGEST_PAUSE_S)
            self._not_before = time.monotonic() + pause_s

    def _ask_profile(self) -> ModuleProfile:
        import json

        runtime = self._take(self._start_timeout_s)
        said: Any = None
        try:
            request = json.dumps({PROFILE: True}).encode()
            said = json.loads(exchange(str(runtime.socket), request, self._start_timeout_s, framed=False))[PROFILE]
            return ModuleProfile(**said)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModuleUnavailable(f"{self._spec} could not be asked about itself: {error}") from error
        finally:
            self._give_back(runtime, usable=said is not None)


_EVERY: weakref.WeakSet[RuntimeModule] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for module in list(_EVERY):
        module.after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)


def open_runtime(target: str, context: PluginContext) -> RuntimeModule:
    """Return the module that runs a function in processes of its own, which are started at the first document.

    :raises GraphInvalid: there is no such Python module. It is not imported here: native code may crash even at that.
    """
    package = target.partition(":")[0]
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError) as error:
        raise _invalid(target, f"cannot import {package}: {type(error).__name__}: {error}") from error
    if found is None:
        raise _invalid(target, f"cannot import {package}: there is no such module")
    settings = context.settings
    return RuntimeModule(
        target,
        processes=settings.runtime_processes,
        memory_mb=settings.runtime_memory_mb,
        start_timeout_s=settings.runtime_start_timeout_s,
    )


def _invalid(target: str, message: str) -> GraphInvalid:
    hint = "put it into modules/, or install it in the environment that runs the drains"
    return GraphInvalid([Problem(f"runtime:{target}", None, "module", message, hint)])
