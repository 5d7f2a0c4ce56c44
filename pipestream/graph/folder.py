"""Read graph files together: each is checked by itself, then all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipestream.errors import GraphInvalid, Problem
from pipestream.graph.folder_rules import check_together
from pipestream.graph.load import GraphCheck, check_graph_file
from pipestream.graph.model import Graph
from pipestream.graph.module_rules import AskModules

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """What checking graph files found."""

    checks: Mapping[Path, GraphCheck]
    """Each file by itself."""
    between: tuple[Problem, ...]
    """Problems between graphs that are valid by themselves."""

    @property
    def problems(self) -> list[Problem]:
        """Return everything that is wrong with any of them."""
        return [*(problem for check in self.checks.values() for problem in check.problems), *self.between]

    @property
    def sound(self) -> list[tuple[Path, Graph]]:
        """Return the graphs without problems, each with its file, in the order of the files."""
        broken = {problem.file for problem in self.problems}
        return [(file, check.graph) for file, check in self.checks.items() if check.graph and str(file) not in broken]


def check_graph_files(files: Iterable[Path], *, look_up: bool = False, ask: AskModules | None = None) -> GraphFiles:
    """Check graph files and return every problem. Raises nothing."""
    checks = {file: check_graph_file(file, look_up=look_up, ask=ask) for file in files}
    loaded = [(str(file), check.graph) for file, check in checks.items() if check.graph is not None]
    return GraphFiles(checks, tuple(check_together(loaded)))


def find_graph_files(folder: Path) -> list[Path]:
    """Return the graph files of a folder, in the order of their names.

    :raises GraphInvalid: there is no such folder.
    """
    if not folder.is_dir():
        hint = "`pipestream up` writes one with the sample graph; or change to your project's folder"
        raise GraphInvalid([Problem(str(folder), None, "folder", "there is no such folder", hint)])
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)


def load_graphs(folder: Path) -> list[Graph]:
    """Return the graphs of all files in a folder, sorted by id.

    :raises GraphInvalid: one of them breaks a rule, or two of them conflict; all problems are listed.
    """
    found = check_graph_files(find_graph_files(folder))
    if found.problems:
        raise GraphInvalid(found.problems)
    return sorted((graph for _, graph in found.sound), key=lambda graph: graph.graph_id)
