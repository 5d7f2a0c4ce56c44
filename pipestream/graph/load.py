"""Read graphs from YAML files and from messages, and check them. Whatever the bytes: a graph, or ``GraphInvalid``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipestream.errors import GraphInvalid, Problem
from pipestream.graph.draft import build_draft
from pipestream.graph.format import GRAPH
from pipestream.graph.proto import parse_binary, parse_json, values_of_message
from pipestream.graph.read import read_section
from pipestream.graph.report import Report
from pipestream.graph.rules import check_rules
from pipestream.graph.write import graph_values
from pipestream.graph.yamltree import MAX_BYTES, Tree, YamlInvalid, parse_yaml, tree_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pipestream.graph.model import Graph
    from pipestream.graph.module_rules import AskModules
    from pipestream.wire import PipelineGraph

_NAMED = 10
"""Files that a hint names at most."""


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

    :param look_up: also import its Python modules and find its connectors. Off where DAG files are parsed, because
        parsing must not run other packages' code.
    :raises GraphInvalid: the file cannot be read or breaks rules; it lists every problem.
    """
    return check_graph_file(path, look_up=look_up).require()


def check_graph_file(path: Path, *, look_up: bool = False, ask: AskModules | None = None) -> GraphCheck:
    """Check a graph file and return every problem. Raises nothing.

    :param ask: also ask modules that run elsewhere which config they take, and check it. Needs a network.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        hint = _files_next_to(path) if isinstance(error, FileNotFoundError) else ""
        return GraphCheck(None, (Problem(str(path), None, "file", f"cannot be read: {error.strerror}", hint),))
    return check_graph_text(data, str(path), look_up=look_up, ask=ask)


def _files_next_to(path: Path) -> str:
    """Return a hint for a file that does not exist: which graph files there are where it was looked for."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} here; change to your project's folder"
    names = sorted(file.name for file in path.parent.glob("*.y*ml"))
    return f"the graphs in {path.parent} are {', '.join(names[:_NAMED])}" if names else ""


def check_graph_text(data: bytes, file: str, *, look_up: bool = False, ask: AskModules | None = None) -> GraphCheck:
    """Check a graph's YAML, as ``check_graph_file``; ``file`` is the name used in problems."""
    return _check_text(data, file, look_up, ask) if look_up or ask else _check_text_once(data, file)


# Reading the same file again in one process, from the DAG to the plan, gives the same graph. Modules and connectors
# outside the file may change, so they are looked up each time.
@lru_cache(maxsize=64)
def _check_text_once(data: bytes, file: str) -> GraphCheck:
    return _check_text(data, file, look_up=False, ask=None)


def _check_text(data: bytes, file: str, look_up: bool, ask: AskModules | None) -> GraphCheck:
    try:
        tree = parse_yaml(data)
    except YamlInvalid as error:
        return GraphCheck(None, (Problem(file, error.line, "file", error.message, error.hint),))
    if tree is None:
        return GraphCheck(None, (Problem(file, None, "file", "is empty", "a graph starts with graph: ID"),))
    return _check_tree(tree, file, look_up, ask)


def check_graph_values(
    values: Mapping[str, Any], file: str, *, look_up: bool = False, ask: AskModules | None = None
) -> GraphCheck:
    """Check a graph given as the plain values of a graph file; its problems have no lines."""
    return _check_tree(tree_of(values), file, look_up, ask)


def check_graph(
    graph: Graph, file: str = "graph", *, look_up: bool = False, ask: AskModules | None = None
) -> GraphCheck:
    """Check a graph that was built in code by the same rules as a file."""
    return check_graph_values(graph_values(graph), file, look_up=look_up, ask=ask)


def from_proto(message: PipelineGraph, *, source: str = "proto") -> Graph:
    """Return the graph of a message. It must obey the same rules as a file, and fails with the same problems.

    Times and the version number are not part of a graph; the store of versions has them.

    :param source: what the problems call the message.
    :raises GraphInvalid: the message breaks the rules of a graph file; every problem is listed.
    """
    report = Report(source)
    check = check_graph_values(values_of_message(message, report), source)
    if report.problems:
        raise GraphInvalid([*report.problems, *check.problems])
    return check.require()


def from_binary(data: bytes, *, source: str = "proto") -> Graph:
    """Return the graph of a message's bytes.

    :raises GraphInvalid: they are not a PipelineGraph, or the graph breaks a rule.
    """
    return from_proto(parse_binary(data, source), source=source)


def from_json(text: str | bytes, *, source: str = "json") -> Graph:
    """Return the graph of protobuf's JSON.

    :raises GraphInvalid: it is not a PipelineGraph in JSON, or the graph breaks a rule.
    """
    return from_proto(parse_json(text, source), source=source)


def _check_tree(tree: Tree, file: str, look_up: bool, ask: AskModules | None) -> GraphCheck:
    report = Report(file)
    values = read_section(tree, GRAPH, "", report)
    if values is None:
        return GraphCheck(None, tuple(report.problems))
    report.close_reading()
    draft = build_draft(values)
    check_rules(draft, report, look_up=look_up, ask=ask)
    problems = tuple(report.sorted_problems())
    return GraphCheck(None if problems else draft.graph, problems, tuple(report.warnings))
