"""Problems of a graph's text, each with its place: line and column, for an editor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipestream.errors import Problem
from pipestream.graph.load import check_graph_text
from pipestream.graph.model import Graph

_LAST_KEY = re.compile(r"([A-Za-z0-9_-]+)(?:\[\d+\])?$")


@dataclass(frozen=True, slots=True)
class PlacedProblem:
    """One thing wrong with a text. Lines and columns count from 1; None where no place is to blame."""

    line: int | None
    column: int | None
    field: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class TextCheck:
    """What checking a text found."""

    graph: Graph | None
    problems: tuple[PlacedProblem, ...]
    warnings: tuple[PlacedProblem, ...]


def check_text(data: bytes, *, look_up: bool = True) -> TextCheck:
    """Check the YAML of a graph. Raises nothing.

    :param look_up: also import its Python modules and find its connectors.
    """
    check = check_graph_text(data, "graph", look_up=look_up)
    lines = data.decode("utf-8", "replace").splitlines()
    return TextCheck(check.graph, place_problems(check.problems, lines), place_problems(check.warnings, lines))


def place_problems(problems: Iterable[Problem], lines: Sequence[str]) -> tuple[PlacedProblem, ...]:
    """Return problems with the columns of their fields in a text."""
    return tuple(
        PlacedProblem(each.line, _column(each, lines), each.field, each.message, each.hint) for each in problems
    )


def _column(problem: Problem, lines: Sequence[str]) -> int | None:
    """Return where the field is named in its line; else where the line's text begins."""
    if problem.line is None or not 0 < problem.line <= len(lines):
        return None
    text = lines[problem.line - 1]
    key = _LAST_KEY.search(problem.field)
    named = re.search(rf"(?<![\w-]){re.escape(key[1])}['\"]?\s*:", text) if key else None
    return (named.start() if named else len(text) - len(text.lstrip(" -"))) + 1
