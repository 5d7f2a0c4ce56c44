"""Collect everything that is wrong with a graph, each with its place."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pipestream.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Collection

# Comparing two names takes tens of microseconds, so a large file full of unknown names would take minutes.
# This many comparisons take less than half a second, and by then the reader has understood.
_MAX_COMPARISONS = 8_000


class Report:
    """The problems and warnings of one graph, and the lines of its fields."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._comparisons_left = _MAX_COMPARISONS
        self._unreadable: frozenset[str] = frozenset()

    def close_reading(self) -> None:
        """End the reading. Parts that could not be read have been reported, so the rules skip them."""
        self._unreadable = frozenset(problem.field for problem in self.problems)

    def is_unreadable(self, field: str) -> bool:
        return field in self._unreadable

    def problem(self, field: str, message: str, hint: str = "") -> None:
        if field in self._unreadable:
            return
        self.problems.append(Problem(self.file, self.line_of(field), field, message, hint))

    def warning(self, field: str, message: str, hint: str = "") -> None:
        self.warnings.append(Problem(self.file, self.line_of(field), field, message, hint))

    def line_of(self, field: str) -> int | None:
        """Return the line of a field, or of the nearest part around it that is in the file."""
        while field and field not in self.lines:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self.lines.get(field) or None  # line 0 is that of a graph without a file

    def suggest(self, word: str, known: Collection[str]) -> str:
        """Return a hint with the known word that was probably meant, or with all if they are few."""
        if self._comparisons_left >= len(known) and len(word) <= 200:
            self._comparisons_left -= len(known)
            close = difflib.get_close_matches(word, known, n=1)
            if close:
                return f"did you mean {close[0]}?"
        if 0 < len(known) <= 20:
            return f"known: {', '.join(sorted(known))}"
        return ""

    def sorted_problems(self) -> list[Problem]:
        """Return the problems in the order of the file."""
        return sorted(self.problems, key=lambda problem: problem.line or 0)
