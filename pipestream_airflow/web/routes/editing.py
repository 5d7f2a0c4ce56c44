"""Change a graph: validate, create, edit, preview, history, diff, rollback, delete.

A change names the version that it starts from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from anyio.to_thread import run_sync
from fastapi import APIRouter, Body, HTTPException, Query, Request

from pipestream.api.graphs import apply_graph, delete_graph
from pipestream.deployment.apply import Applied, preview_graph
from pipestream.errors import RequestInvalid
from pipestream.graph.diff import Change, diff_graphs
from pipestream.graph.model import Graph
from pipestream.graph.pause_text import pause_in_text
from pipestream.graph.write import to_yaml
from pipestream.views.files import write_graph_file
from pipestream.views.problems import PlacedProblem, check_text
from pipestream_airflow.web.access import READS, TRIES, PipelineId, is_allowed, writes
from pipestream_airflow.web.errors import TextInvalid
from pipestream_airflow.web.services import Services, ServicesDep

router = APIRouter(tags=["pipelines"])

_YAML = "application/yaml"
GraphText = Annotated[bytes, Body(media_type=_YAML, description="The YAML of a graph.")]
BaseVersion = Annotated[int, Query(ge=1, description="The version that the change starts from. Another one: 409.")]
VersionNumber = Annotated[int, Query(ge=1, le=2**31 - 1)]
WriteFile = Annotated[bool, Query(description="Also write the graph file, from which Airflow makes the DAG.")]
LeaveBehind = Annotated[bool, Query(description="Delete it although records or dead letters wait. They stay.")]
DeleteFile = Annotated[bool, Query(description="Also delete the graph file, from which Airflow makes the DAG.")]
Force = Annotated[bool, Query(description="Delete topics that are no longer needed even if they hold unread records.")]


@dataclass(frozen=True, slots=True)
class Validation:
    """What is wrong with a text."""

    valid: bool
    id: str
    """The graph's id; empty where the text is not a graph."""
    problems: tuple[PlacedProblem, ...]
    warnings: tuple[PlacedProblem, ...]


@dataclass(frozen=True, slots=True)
class AppliedGraph:
    """What applying a graph did."""

    id: str
    version: int
    hash: str
    created: tuple[str, ...]
    grown: tuple[str, ...]
    retired: tuple[str, ...]
    unread: tuple[str, ...]
    """Topics that are no longer needed and stay, because they hold unread records."""
    file: str
    """The graph file that was written; empty: none."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletedGraph:
    """What deleting a graph did, and what it left."""

    id: str
    version: int
    """The version that was the active one. All versions are kept."""
    topics: tuple[str, ...]
    """The graph's topics. They stay, with what they hold."""
    waiting: Mapping[str, int]
    """Offsets that stay undrained, by topic."""
    dead_letters: int
    """Dead letters that nobody has decided on."""
    file: str
    """The graph file that was deleted; empty: there was none."""


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One difference between two graphs."""

    kind: str
    """``+``, ``-`` or ``~``."""
    what: str
    field: str
    old: Any
    new: Any
    text: str


@dataclass(frozen=True, slots=True)
class GraphPreview:
    """What applying a text would change."""

    changes: list[ChangeView]
    create: tuple[str, ...]
    grow: dict[str, int]
    retire: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionView:
    """One version of a graph."""

    version: int
    hash: str
    applied_by: str
    applied_at: datetime
    active: bool
    active_since: datetime | None
    activated_by: str


@dataclass(frozen=True, slots=True)
class VersionText:
    """A version as YAML."""

    version: int
    yaml: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """Which version to apply again."""

    version: int
    base_version: int


@router.post("/pipelines/validate", dependencies=TRIES)
async def validate(request: Request, text: GraphText, services: ServicesDep) -> Validation:
    """Check a graph's YAML and report every problem at its line. Changes nothing."""
    _require_yaml(request)
    check = await services.store.ask(("validate", text), lambda: check_text(text))
    return Validation(check.graph is not None, _id_of(check.graph), check.problems, check.warnings)


@router.post("/pipelines", dependencies=writes("pipestream_create"), status_code=201)
async def create(
    request: Request, text: GraphText, services: ServicesDep, user: GetUserDep, write_file: WriteFile = False
) -> AppliedGraph:
    """Apply a graph that was never applied before."""
    graph = await read_text(request, text, services)
    if not await run_sync(is_allowed, "PUT", user, [graph.graph_id]):
        raise HTTPException(403, f"you may not edit the DAG of pipeline {graph.graph_id}")
    return await _apply(services, user.get_name(), graph, 0, text if write_file else b"")


@router.put("/pipelines/{pipeline_id}", dependencies=writes("pipestream_edit"))
async def edit(
    request: Request,
    pipeline_id: PipelineId,
    base_version: BaseVersion,
    text: GraphText,
    services: ServicesDep,
    user: GetUserDep,
    write_file: WriteFile = False,
    force: Force = False,
) -> AppliedGraph:
    """Apply a changed graph, if the version that the change starts from is still the active one."""
    graph = await read_text(request, text, services, pipeline_id)
    return await _apply(services, user.get_name(), graph, base_version, text if write_file else b"", force=force)


@router.delete("/pipelines/{pipeline_id}", dependencies=writes("pipestream_delete", "DELETE"))
async def delete(
    pipeline_id: PipelineId,
    base_version: BaseVersion,
    services: ServicesDep,
    user: GetUserDep,
    leave_behind: LeaveBehind = False,
    delete_file: DeleteFile = False,
) -> DeletedGraph:
    """Delete a pipeline that is stopped. Its topics, its ledger, its documents and its versions stay."""

    def act() -> DeletedGraph:
        done = delete_graph(
            pipeline_id,
            deleted_by=user.get_name(),
            leave_behind=leave_behind,
            delete_file=delete_file,
            base_version=base_version,
            settings=services.full_settings,
        )
        return DeletedGraph(done.graph_id, done.version, done.topics, done.waiting, done.dead_letters, done.file)

    key = ("delete", pipeline_id, user.get_name(), base_version, leave_behind, delete_file)
    return await services.actions.ask(key, act)


@router.post("/pipelines/{pipeline_id}/preview", dependencies=TRIES)
async def preview(request: Request, pipeline_id: PipelineId, text: GraphText, services: ServicesDep) -> GraphPreview:
    """Show what applying a text would change: parts of the graph, and topics. Changes nothing."""
    graph = await read_text(request, text, services, pipeline_id)

    def look() -> GraphPreview:
        topics = preview_graph(graph, services.settings, services.versions)
        active = services.versions.active(pipeline_id)
        changes = diff_graphs(active, graph) if active else []
        create = tuple(spec.name for spec in topics.create)
        return GraphPreview(_shown(changes), create, dict(topics.grow), topics.retire, topics.warnings)

    return await services.kafka.ask(("preview", pipeline_id, text), look)


@router.get("/pipelines/{pipeline_id}/history", dependencies=READS)
async def history(pipeline_id: PipelineId, services: ServicesDep) -> list[VersionView]:
    """List the versions, newest first."""
    found = await services.database.ask(("history", pipeline_id), lambda: services.versions.history(pipeline_id))
    return [
        VersionView(v.version, v.hash, v.applied_by, v.applied_at, v.active, v.active_since, v.activated_by)
        for v in found
    ]


@router.get("/pipelines/{pipeline_id}/versions/{version}", dependencies=READS)
async def show_version(pipeline_id: PipelineId, version: int, services: ServicesDep) -> VersionText:
    """Show a version as YAML."""
    return VersionText(version, to_yaml(await _find(services, pipeline_id, version)))


@router.get("/pipelines/{pipeline_id}/diff", dependencies=READS)
async def diff(
    pipeline_id: PipelineId,
    services: ServicesDep,
    old: Annotated[int, Query(alias="from", ge=1, le=2**31 - 1)],
    new: Annotated[int, Query(alias="to", ge=1, le=2**31 - 1)],
) -> list[ChangeView]:
    """Show what differs between two versions."""
    first, second = await _find(services, pipeline_id, old), await _find(services, pipeline_id, new)
    return _shown(diff_graphs(first, second))


@router.post("/pipelines/{pipeline_id}/rollback", dependencies=writes("pipestream_rollback"))
async def rollback(
    pipeline_id: PipelineId, wanted: Rollback, services: ServicesDep, user: GetUserDep, write_file: WriteFile = False
) -> AppliedGraph:
    """Apply an older version again, topics included."""
    graph = await _find(services, pipeline_id, wanted.version)
    text = to_yaml(graph).encode() if write_file else b""
    return await _apply(services, user.get_name(), graph, wanted.base_version, text)


@dataclass(frozen=True, slots=True)
class DatasourceChange:
    """Whether a datasource is paused."""

    paused: bool
    base_version: int


@router.patch(
    "/pipelines/{pipeline_id}/datasources/{datasource_id}", dependencies=writes("pipestream_pause_datasource")
)
async def pause_datasource(
    pipeline_id: PipelineId,
    datasource_id: str,
    wanted: DatasourceChange,
    services: ServicesDep,
    user: GetUserDep,
    write_file: WriteFile = False,
) -> AppliedGraph:
    """Pause or resume a datasource: a change of the graph, which becomes a new version."""
    graph = await _find(services, pipeline_id, wanted.base_version)
    if datasource_id not in graph.datasource_by_id:
        raise RequestInvalid(f"graph {pipeline_id} has no datasource {datasource_id!r}")
    changed = tuple(
        replace(source, paused=wanted.paused) if source.datasource_id == datasource_id else source
        for source in graph.datasources
    )
    text = b""
    if write_file:
        known = await services.database.ask(("pipeline", pipeline_id), lambda: services.pipelines.find(pipeline_id))
        # The file may also say what is not applied yet: that, like its comments, is for its author to decide on.
        written = known.file_text() or to_yaml(graph)
        try:
            text = pause_in_text(written, datasource_id, paused=wanted.paused).encode()
        except ValueError as error:
            raise RequestInvalid(f"{error}; edit the graph's file and apply it") from None
    graph = replace(graph, datasources=changed)
    return await _apply(services, user.get_name(), graph, wanted.base_version, text)


async def read_text(request: Request, text: bytes, services: Services, pipeline_id: str = "") -> Graph:
    """Return the graph of a text.

    :raises TextInvalid: it breaks rules; the answer has every problem at its line.
    """
    _require_yaml(request)
    check = await services.store.ask(("validate", text), lambda: check_text(text))
    if check.graph is None:
        raise TextInvalid(check.problems)
    if pipeline_id and check.graph.graph_id != pipeline_id:
        raise RequestInvalid(f"the text is graph {check.graph.graph_id}, not {pipeline_id}; correct its first line")
    return check.graph


async def _apply(
    services: Services, user: str, graph: Graph, base_version: int, text: bytes, *, force: bool = False
) -> AppliedGraph:
    """Apply a graph, and then write its file if there is a text for it."""

    def act() -> AppliedGraph:
        applied = apply_graph(
            graph, applied_by=user, force=force, base_version=base_version, settings=services.full_settings
        )
        warnings, name = list(applied.warnings), ""
        if text:
            known = services.pipelines.find(graph.graph_id)
            try:
                name = write_graph_file(services.settings.graphs_folder, known.path, graph.graph_id, text)
            except OSError as error:
                warnings.append(
                    f"it is applied, but its file was not written: {error.strerror}. Airflow's runs use the file, and "
                    f"of the active version only what it pauses, so make the same change in the file"
                )
        return _applied(applied, name, warnings)

    key = ("apply", graph.graph_id, user, base_version, to_yaml(graph), text, force)
    return await services.actions.ask(key, act)


def _applied(applied: Applied, file: str, warnings: Sequence[str]) -> AppliedGraph:
    version = applied.version
    return AppliedGraph(
        version.graph_id,
        version.version,
        version.hash,
        applied.created,
        applied.grown,
        applied.retired,
        applied.unread,
        file,
        tuple(warnings),
    )


async def _find(services: Services, pipeline_id: str, version: int) -> Graph:
    if not 0 < version < 2**31:
        raise RequestInvalid(f"{version} is not the number of a version")
    return await services.database.ask(
        ("version", pipeline_id, version), lambda: services.versions.get(pipeline_id, version)
    )


def _shown(changes: Sequence[Change]) -> list[ChangeView]:
    return [ChangeView(c.kind.value, c.what, c.field, c.old, c.new, str(c)) for c in changes]


def _require_yaml(request: Request) -> None:
    """Refuse other bodies. A form of another site cannot send this type, so it cannot use a user's session."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _YAML:
        raise HTTPException(415, f"send the graph as {_YAML}")


def _id_of(graph: Graph | None) -> str:
    return graph.graph_id if graph else ""
