"""Read graphs from YAML files. Whatever the bytes are, the answer is a graph or ``GraphInvalid``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipestream.errors import GraphInvalid, Problem
from pipestream.graph.draft import build_draft
from pipestream.graph.read import read_section
from pipestream.graph.report import Report
from pipestream.graph.rules import check_rules
from pipestream.graph.schema import GRAPH
from pipestream.graph.write import graph_values
from pipestream.graph.yamltree import MAX_BYTES, Tree, YamlInvalid, parse_yaml, tree_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pipestream.graph.model import Graph


@dataclass(frozen=True, slots=True)
class GraphCheck:
    """What checking a graph found: the graph only if there are no problems; warnings in either case."""

    graph: Graph | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()

    def require(self) -> Graph:
        """Return the graph.

        :raises GraphInvalid: there were problems.
        """
        if self.graph is None:
            raise GraphInvalid(self.problems)
        return self.graph


def load_graph(path: Path, *, look_up: bool = False) -> Graph:
    """Return the graph of a file.

    :param look_up: also look up what it names outside itself: import its Python modules, find its connectors. Off where
        DAG files are parsed, because that must not run foreign code.
    :raises GraphInvalid: the file cannot be read or breaks rules; it lists every problem.
    """
    return check_graph_file(path, look_up=look_up).require()


def check_graph_file(path: Path, *, look_up: bool = False) -> GraphCheck:
    """Check a graph file and say all that is wrong with it. Raises nothing."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return GraphCheck(None, (Problem(str(path), None, "file", f"cannot be read: {error.strerror}"),))
    return check_graph_text(data, str(path), look_up=look_up)


def check_graph_text(data: bytes, file: str, *, look_up: bool = False) -> GraphCheck:
    """Check a graph's YAML, as ``check_graph_file``; ``file`` is the name used in problems."""
    try:
        tree = parse_yaml(data)
    except YamlInvalid as error:
        return GraphCheck(None, (Problem(file, error.line, "file", error.message, error.hint),))
    if tree is None:
        return GraphCheck(None, (Problem(file, None, "file", "is empty", "a graph starts with graph: ID"),))
    return _check_tree(tree, file, look_up)


def check_graph_values(values: Mapping[str, Any], file: str, *, look_up: bool = False) -> GraphCheck:
    """Check a graph given as the plain values of a graph file; its problems have no lines."""
    return _check_tree(tree_of(values), file, look_up)


def restore_graph(values: Mapping[str, Any], file: str) -> Graph:
    """Return a graph that was checked when it was kept, without asking today's rules.

    A rule that came later must not make the past unreadable.

    :raises GraphInvalid: a value is not of its field's kind.
    """
    report = Report(file)
    read = read_section(tree_of(values), GRAPH, "", report)
    if read is None or report.problems:
        raise GraphInvalid(report.problems)
    return build_draft(read).graph


def check_graph(graph: Graph, file: str = "graph", *, look_up: bool = False) -> GraphCheck:
    """Check a graph that was made in code by the same rules as a file."""
    return check_graph_values(graph_values(graph), file, look_up=look_up)


def _check_tree(tree: Tree, file: str, look_up: bool) -> GraphCheck:
    report = Report(file)
    values = read_section(tree, GRAPH, "", report)
    if values is None:
        return GraphCheck(None, tuple(report.problems))
    report.close_reading()
    draft = build_draft(values)
    check_rules(draft, report, look_up=look_up)
    problems = tuple(report.sorted_problems())
    return GraphCheck(None if problems else draft.graph, problems, tuple(report.warnings))
