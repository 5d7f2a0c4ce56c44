"""Reads a folder of graphs for Airflow, where one broken file must not take the other graphs' DAGs down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import Problem
from pipestream.graph.folder_rules import check_together
from pipestream.graph.load import SUFFIXES, check_graph_file

if TYPE_CHECKING:
    from pathlib import Path

    from pipestream.graph.model import Graph


@dataclass(frozen=True, slots=True)
class GraphFolder:
    """The graphs that can become DAGs, each with its file, and what is wrong with the others."""

    graphs: tuple[tuple[Graph, Path], ...]
    problems: tuple[Problem, ...]


def read_folder(folder: Path) -> GraphFolder:
    """Read every graph file of a folder, in the order of their names. Raises nothing."""
    if not folder.is_dir():
        return GraphFolder((), (Problem(str(folder), None, "folder", "there is no such folder"),))
    files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    checks = [(file, check_graph_file(file)) for file in files]
    loaded = [(file, check.graph) for file, check in checks if check.graph is not None]
    problems = [problem for _, check in checks for problem in check.problems]
    problems += check_together([(str(file), graph) for file, graph in loaded])
    broken = {problem.file for problem in problems}
    return GraphFolder(tuple((graph, file) for file, graph in loaded if str(file) not in broken), tuple(problems))
