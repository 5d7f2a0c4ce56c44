"""Whether what a server cannot work without is there: its broker, its database, its object store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Self

from pipestream.errors import PipestreamError

log = logging.getLogger(__name__)

_EVERY_S = 5.0


class DependencyWatch:
    """Asks dependencies in a thread, so that a question about health is answered at once. A context manager.

    A server that has nothing to do would not notice otherwise that its broker is away.
    """

    def __init__(self, checks: Mapping[str, Callable[[], object]], every_s: float = _EVERY_S) -> None:
        """:param checks: by the name of the dependency; each raises where it is away, within a time of its own."""
        self._checks = dict(checks)
        self._every_s = every_s
        self._stop = threading.Event()
        self._away: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="dependencies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not joined: a check may wait for a server that is away, and what it brings is not wanted any more.
        self._stop.set()

    def problems(self) -> list[str]:
        """Return which dependencies are away, and why."""
        return [f"{name}: {why}" for name, why in sorted(self._away.copy().items())]

    def _run(self) -> None:
        while not self._stop.is_set():
            for name, check in self._checks.items():
                self._note(name, _why_away(check))
            self._stop.wait(self._every_s)

    def _note(self, name: str, why: str) -> None:
        if self._stop.is_set() or why == self._away.get(name, ""):
            return
        if why and name not in self._away:
            log.warning("%s is away: %s", name, why)
        elif not why:
            log.info("%s is back", name)
        if why:
            self._away[name] = why
        else:
            del self._away[name]


def _why_away(check: Callable[[], object]) -> str:
    try:
        check()
    except PipestreamError as error:
        return str(error)
    except Exception as error:  # a bug must not end the watch
        log.exception("unexpected error of a check")
        return f"unexpected {type(error).__name__}: {error}"
    return ""
