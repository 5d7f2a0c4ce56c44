"""What is wrong with a CEL expression, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConditionProblem:
    """One thing wrong with an expression. ``line`` and ``column`` count from 1, ``offset`` from 0."""

    offset: int
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


class ExpressionRefused(Exception):
    """An expression breaks a rule. Carries every problem found; never leaves this package."""

    def __init__(self, problems: list[ConditionProblem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


class SyntaxRefused(ExpressionRefused):
    """An expression is not CEL at all."""


_CARET_WINDOW = 100
"""Characters of a line shown around a problem."""


def problem_at(text: str, offset: int, message: str) -> ConditionProblem:
    """Return a problem at ``offset`` characters into ``text``."""
    offset = max(0, min(offset, len(text)))
    before = text[:offset]
    return ConditionProblem(
        offset=offset,
        line=before.count("\n") + 1,
        column=offset - (before.rfind("\n") + 1) + 1,
        message=message,
    )


def problem_on(text: str, line: int, column: int, message: str) -> ConditionProblem:
    """Return a problem at ``line`` and ``column`` of ``text``; both count from 1."""
    lines = text.split("\n")
    line = max(1, min(line, len(lines)))
    column = max(1, min(column, len(lines[line - 1]) + 1))
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    return ConditionProblem(offset=offset, line=line, column=column, message=message)


def with_caret(text: str, problem: ConditionProblem) -> str:
    """Draw the line of ``text`` that has the problem, with a caret under the place."""
    lines = text.split("\n")
    source = lines[problem.line - 1] if problem.line <= len(lines) else ""
    start = max(0, problem.column - 1 - _CARET_WINDOW // 2)
    shown = source[start : start + _CARET_WINDOW]
    # A tab under a tab, so that the caret is in the right column, whatever the terminal's tab width.
    indent = "".join("\t" if char == "\t" else " " for char in source[start : problem.column - 1])
    cut_left, cut_right = "…" if start else "", "…" if start + _CARET_WINDOW < len(source) else ""
    return (
        f"{problem.line}:{problem.column}: {problem.message}\n"
        f"  {cut_left}{shown}{cut_right}\n"
        f"  {' ' if cut_left else ''}{indent}^"
    )
