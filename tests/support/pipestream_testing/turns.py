"""Processes that take turns, one step at a time, in an order that a test chooses. Any of them may die on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

# A step takes milliseconds. One that takes so long waits for another process, which will never get its turn.
_STEP_LIMIT_S = 300.0


class Crash(BaseException):
    """The process died here. Not an Exception, so that nothing on the way handles it."""


_running: ContextVar[_Process | None] = ContextVar("running", default=None)


class Turns:
    """Runs processes that call ``step`` wherever another one may come in between.

    A process may start threads of its own, in a copy of its context. A step of any of them is a step of the process.
    """

    def step(self) -> None:
        """Let the others go first, if the order says so. Does nothing outside of a process."""
        process = _running.get()
        if process:
            process.pause()

    def run(
        self, works: Sequence[Callable[[], Any]], order: Iterable[tuple[int, int]] = (), killed: Collection[int] = ()
    ) -> list[Any]:
        """Run processes side by side; return what each came to: its result, its error, or ``Crash``.

        :param order: who takes how many steps. After it, those that are to be killed die where they are, and the
            others go on to their ends, one after the other.
        """
        processes = [_Process(work) for work in works]
        for process in processes:
            process.start()
        for number, steps in order:
            for _ in range(steps):
                processes[number].resume()
        for number in killed:
            processes[number].kill()
        for process in processes:
            while not process.is_over:
                process.resume()
            process.join()
        return [process.outcome for process in processes]


class _Process(threading.Thread):
    """Takes a step only when the test says so.

    A process of one thread only ever runs while the test waits for it. If it has several, one of them may still be on
    its way to its next step when the test continues.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._changed = threading.Condition()
        self._turns = 0
        self._waiting = 0
        self._is_killed = False
        self.is_over = False
        self.outcome: Any = None

    def run(self) -> None:
        _running.set(self)
        try:
            self.pause()
            self.outcome = self._work()
        except BaseException as error:  # the test's to judge
            self.outcome = error
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def pause(self) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._turns or self._is_killed)
            self._waiting -= 1
            if self._is_killed:
                raise Crash
            self._turns -= 1
            self._changed.notify_all()

    def resume(self) -> None:
        """Let it take its next step, and wait for that."""
        with self._changed:
            if not self.is_over:
                self._turns += 1
                self._changed.notify_all()
                self._wait(lambda: self.is_over or (not self._turns and self._waiting))

    def kill(self) -> None:
        """Let all of its threads die at their next steps, and wait for that."""
        with self._changed:
            self._is_killed = True
            self._changed.notify_all()
            self._wait(lambda: self.is_over)

    def _wait(self, condition: Callable[[], Any]) -> None:
        if not self._changed.wait_for(condition, _STEP_LIMIT_S):
            raise TimeoutError(f"a process took longer than {_STEP_LIMIT_S:g} s over a step")
