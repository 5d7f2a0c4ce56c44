"""The modules of a graph: what each says about itself, and how it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import PipestreamError
from pipestream.modules.health import Health, HealthyModule
from pipestream.modules.module import ModuleProfile, profile_of
from pipestream.modules.resolve import resolve_module
from pipestream.plugins import PluginContext

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

_ASKED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ModuleState:
    """One module of a graph."""

    module: str
    nodes: tuple[str, ...]
    health: Health
    profile: ModuleProfile
    problem: str = ""
    """Why it cannot be used, or could not be asked."""

    @property
    def is_usable(self) -> bool:
        return not self.problem and self.health is not Health.NOT_SERVING


def module_states(graph: Graph, settings: Settings) -> list[ModuleState]:
    """Ask all modules of a graph that run here or are called from here, side by side; in the order of the nodes."""
    nodes: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.module and not node.engine:
            nodes.setdefault(node.module, []).append(node.node_id)
    context = PluginContext(settings)
    with ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="ask-module") as pool:
        return list(pool.map(lambda item: _ask(item[0], tuple(item[1]), context), nodes.items()))


def _ask(spec: str, nodes: tuple[str, ...], context: PluginContext) -> ModuleState:
    health, problem, profile = Health.UNKNOWN, "", ModuleProfile()
    try:
        with closing(resolve_module(spec, context)) as module:
            health, problem = module.health() if isinstance(module, HealthyModule) else (Health.UNWATCHED, "")
            if not problem:
                profile = profile_of(module)
    except PipestreamError as error:
        problem = str(error)
    return ModuleState(spec, nodes, health, profile, problem or profile.problem)
