"""Pipelines: every graph that was applied or has a file, as a list shows it and as a picture needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipestream.deployment.active import ActiveGraphs
from pipestream.deployment.versions import ActiveGraph, GraphVersions
from pipestream.errors import GraphInvalid, Problem, TerminalError
from pipestream.graph.folder import check_graph_files, find_graph_files
from pipestream.graph.model import Graph, GraphMode
from pipestream.graph.proto import graph_hash
from pipestream.graph.write import to_yaml
from pipestream.ids import graph_dag_id
from pipestream.views.leases import common

if TYPE_CHECKING:
    from pathlib import Path

    from pipestream.graph.load import GraphCheck
    from pipestream.leases.store import DesiredState
    from pipestream.settings import Settings
    from pipestream.views.standing import Standing


class PipelineMissing(TerminalError):
    """There is no pipeline of this id."""

    def __init__(self, pipeline_id: str) -> None:
        self.pipeline_id = pipeline_id
        super().__init__(f"there is no pipeline {pipeline_id}: no graph of this id was applied, and no file has one")


@dataclass(frozen=True, slots=True)
class GraphFile:
    """The file of a graph, which Airflow makes the DAG from."""

    name: str
    is_applied: bool
    """Whether it says what the active version says."""


@dataclass(frozen=True, slots=True)
class KnownPipeline:
    """A graph as PostgreSQL and the folder of graph files have it; one of them at least does."""

    pipeline_id: str
    active: ActiveGraph | None
    file: GraphFile | None
    path: Path | None
    problems: tuple[Problem, ...] = ()
    graph: Graph | None = None
    """The active version's; else the file's; None if neither can be read."""

    @property
    def version(self) -> int | None:
        return self.active.version if self.active else None

    @property
    def hash(self) -> str:
        return self.active.built.digest if self.active else ""

    def to_yaml(self) -> str:
        """Return the graph's YAML: the file's where that says what is active, with its comments; else the version's."""
        if self.file is not None and (self.file.is_applied or self.active is None) and (text := self.file_text()):
            return text
        return to_yaml(self.graph) if self.graph else ""

    def differing_file(self) -> str:
        """Return the text of the file, from which DAGs are made, if it differs from the active version."""
        differs = self.active is not None and self.file is not None and not self.file.is_applied
        return self.file_text() if differs else ""

    def file_text(self) -> str:
        """Return the text of the graph's file; empty without one."""
        with suppress(OSError):
            return self.path.read_text(encoding="utf-8", errors="replace") if self.path else ""
        return ""


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline as a list shows it. What Kafka did not say is None."""

    id: str
    title: str
    description: str
    dag_id: str
    version: int | None
    """The active version; None: the graph was never applied."""
    hash: str
    mode: str
    """``production``, or ``design``: documents do not move."""
    state: str
    """``started``, ``stopped``, ``mixed``, ``not applied`` or ``broken``."""
    drained_by: str
    """``batch``, ``streaming`` or ``mixed``."""
    nodes: int
    edges: int
    file: GraphFile | None
    waiting: int | None
    oldest_age_s: float | None
    dead_letters: int | None
    problems: tuple[str, ...]


class Pipelines:
    """Every graph that is known here: the active versions in PostgreSQL, and the files of ``graphs_folder``."""

    def __init__(self, settings: Settings, versions: GraphVersions) -> None:
        self._folder = settings.graphs_folder
        self._versions = versions
        self._active = ActiveGraphs(versions)
        # Hashing a large graph takes milliseconds, and a file that did not change gives the same graph again.
        self._hashes: dict[Path, tuple[Graph, str]] = {}

    def read(self) -> dict[str, KnownPipeline]:
        """Return all pipelines by id, sorted. A graph that cannot be read has problems, and stops no other.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        active = self._active.read()
        files = self._files()
        found: dict[str, KnownPipeline] = {}
        for graph_id in sorted({*active, *self._active.unreadable, *files}):
            known = self._know(graph_id, active.get(graph_id), files.get(graph_id))
            if graph_id in self._active.unreadable:
                version = self._active.unreadable[graph_id]
                problem = Problem(f"graph {graph_id}", None, "version", f"the active version {version} cannot be read")
                known = replace(known, problems=(problem, *known.problems))
            found[graph_id] = known
        return found

    def find(self, pipeline_id: str) -> KnownPipeline:
        """Return one pipeline.

        :raises PipelineMissing: there is none of this id.
        """
        found = self.read().get(pipeline_id)
        if found is None:
            raise PipelineMissing(pipeline_id)
        return found

    def active(self) -> Mapping[str, ActiveGraph]:
        """Return the active versions by the ids of their graphs."""
        return self._active.read()

    def _files(self) -> dict[str, tuple[Path, GraphCheck]]:
        try:
            paths = find_graph_files(self._folder)
        except (GraphInvalid, OSError):
            return {}  # an installation may have no such folder: then the versions are all there is
        checked = check_graph_files(paths)
        found: dict[str, tuple[Path, GraphCheck]] = {}
        for path, check in checked.checks.items():
            between = tuple(problem for problem in checked.between if problem.file == str(path))
            graph_id = check.graph.graph_id if check.graph else path.stem
            found.setdefault(graph_id, (path, replace(check, problems=(*check.problems, *between))))
        return found

    def _know(self, graph_id: str, active: ActiveGraph | None, file: tuple[Path, GraphCheck] | None) -> KnownPipeline:
        if file is None:
            return KnownPipeline(graph_id, active, None, None, (), active.built.graph if active else None)
        path, check = file
        is_applied = active is not None and self._hash(path, check.graph) == active.built.digest
        graph = active.built.graph if active else check.graph
        return KnownPipeline(graph_id, active, GraphFile(path.name, is_applied), path, check.problems, graph)

    def _hash(self, path: Path, graph: Graph | None) -> str:
        if graph is None:
            return ""
        kept = self._hashes.get(path)
        if kept is None or kept[0] is not graph:
            kept = self._hashes[path] = (graph, graph_hash(graph))
        return kept[1]


def pipeline_row(
    known: KnownPipeline,
    desired: Mapping[str, DesiredState],
    standing: Standing | None,
    letters: Counter[tuple[str, str]] | None,
) -> PipelineRow:
    """Return a pipeline as a list shows it.

    :param desired: what is wanted of its topics.
    :param standing: where all topics stand; None where Kafka did not answer.
    :param letters: dead letters that wait, by graph and node; None where Kafka did not answer.
    """
    graph = known.graph
    topics = [each for each in standing.topics if each.graph_id == known.pipeline_id] if standing else []
    counted = standing is not None and known.active is not None
    return PipelineRow(
        id=known.pipeline_id,
        title=(graph.name if graph else "") or known.pipeline_id,
        description=graph.description if graph else "",
        dag_id=graph_dag_id(known.pipeline_id),
        version=known.version,
        hash=known.hash,
        mode=graph.mode.value if graph else GraphMode.DESIGN.value,
        state=_state(known, list(desired.values())),
        drained_by=common(state.mode.value for state in desired.values()) or "batch",
        nodes=len(graph.nodes) if graph else 0,
        edges=len(graph.edges) if graph else 0,
        file=known.file,
        waiting=sum(each.lag for each in topics) if counted else None,
        oldest_age_s=max((each.oldest_age_s for each in topics), default=0.0) if counted else None,
        dead_letters=sum(count for (graph_id, _), count in letters.items() if graph_id == known.pipeline_id)
        if letters is not None and known.active is not None
        else None,
        problems=tuple(str(problem) for problem in known.problems),
    )


def _state(known: KnownPipeline, desired: Sequence[DesiredState]) -> str:
    if known.graph is None:
        return "broken"
    if known.active is None:
        return "broken" if known.problems else "not applied"
    return common("started" if state.started else "stopped" for state in desired) or "started"
