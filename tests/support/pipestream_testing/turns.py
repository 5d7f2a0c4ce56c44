"""Processes that take turns, one step at a time, in an order that a test chooses. Any of them may die on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

# A step takes milliseconds. One that takes so long waits for another process, which will never get its turn.
_STEP_LIMIT_S = 300.0


class Crash(BaseException):
    """The process died here. Not an Exception, so that nothing on the way handles it."""


class Turns:
    """Runs processes that call ``step`` wherever another one may come in between."""

    def __init__(self) -> None:
        self._here = threading.local()

    def step(self) -> None:
        """Let the others go first, if the order says so. Does nothing outside of a process."""
        process: _Process | None = getattr(self._here, "process", None)
        if process:
            process.pause()

    def run(
        self, works: Sequence[Callable[[], Any]], order: Iterable[tuple[int, int]] = (), killed: Collection[int] = ()
    ) -> list[Any]:
        """Run processes side by side; return what each came to: its result, its error, or ``Crash``.

        :param order: who takes how many steps. After it, those that are to be killed die where they are, and the
            others go on to their ends, one after the other.
        """
        processes = [_Process(work, self._here) for work in works]
        for process in processes:
            process.start()
        for number, steps in order:
            for _ in range(steps):
                processes[number].resume()
        for number in killed:
            processes[number].is_killed = True
            processes[number].resume()
        for process in processes:
            while not process.is_over:
                process.resume()
            process.join()
        return [process.outcome for process in processes]


class _Process(threading.Thread):
    """Only ever runs while the test waits for it, so that the order alone decides what happens."""

    def __init__(self, work: Callable[[], Any], here: threading.local) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._here = here
        self._turn = threading.Semaphore(0)
        self._step_is_done = threading.Semaphore(0)
        self.is_killed = False
        self.is_over = False
        self.outcome: Any = None

    def run(self) -> None:
        self._here.process = self
        try:
            self._wait_for_turn()
            self.outcome = self._work()
        except BaseException as error:  # the test's to judge
            self.outcome = error
        self.is_over = True
        self._step_is_done.release()

    def pause(self) -> None:
        if not self.is_killed:
            self._step_is_done.release()
            self._wait_for_turn()
        else:
            raise Crash

    def resume(self) -> None:
        """Let it take its next step, and wait for that."""
        if not self.is_over:
            self._turn.release()
            if not self._step_is_done.acquire(timeout=_STEP_LIMIT_S):
                raise TimeoutError(f"a process took longer than {_STEP_LIMIT_S:g} s over a step")

    def _wait_for_turn(self) -> None:
        self._turn.acquire()
        if self.is_killed:
            raise Crash
