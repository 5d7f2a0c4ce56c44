"""Check each node's ``config`` and ``concurrency`` against what its module says about itself.

A Python module is imported, so its schema is known without a server. A gRPC module has to be asked, which only happens
on request: to check a file must be possible without a network.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import GraphInvalid, ModuleFailed, PipestreamError, PluginBroken, SettingsInvalid
from pipestream.modules.config_schema import SchemaUnusable, check_config
from pipestream.modules.module import ModuleProfile, profile_of
from pipestream.modules.resolve import resolve_module
from pipestream.plugins import PluginContext

if TYPE_CHECKING:
    from pipestream.graph.draft import Draft
    from pipestream.graph.model import Node
    from pipestream.graph.report import Report
    from pipestream.settings import Settings

REMOTE_KINDS = ("grpc", "unix")
_ASKED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class AskModules:
    """The wish to ask modules that run elsewhere, and what it means that one does not answer."""

    required: bool = False
    """Whether a module that cannot be asked is a problem of the graph; else it is a warning."""
    settings: Settings | None = None
    """How to reach them; the settings of this process unless given."""


def check_configs(draft: Draft, report: Report, ask: AskModules | None) -> None:
    """Report every config that breaks the schema of its module."""
    nodes = [(place, node) for place, node in draft.nodes if node.module and not node.engine]
    specs = list(dict.fromkeys(node.module for _, node in nodes))
    profiles = {spec: _ask(spec, PluginContext()) for spec in specs if not _is_remote(spec)}
    if ask:
        context = PluginContext(ask.settings)
        remote = [spec for spec in specs if _is_remote(spec)]
        with ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="ask-module") as pool:
            profiles |= dict(zip(remote, pool.map(lambda spec: _ask(spec, context), remote), strict=True))
    for place, node in nodes:
        profile = profiles.get(node.module)
        if isinstance(profile, PipestreamError):
            # One that this installation runs itself has to answer.
            is_required = not _is_remote(node.module) or (ask is not None and ask.required)
            _report_silent(place, profile, report, is_required=is_required)
        elif profile is not None:
            _check_config(place, node, profile, report)
            _check_concurrency(place, node, profile, report)


def _check_concurrency(place: str, node: Node, profile: ModuleProfile, report: Report) -> None:
    if node.concurrency > 1 and node.module.startswith("python:") and not profile.is_concurrent:
        report.problem(
            f"{place}.concurrency",
            f"{node.module} does not say that it may be called for several documents at once",
            "if it may be, declare it: @declare_module(is_concurrent=True); else leave concurrency out",
        )


def _is_remote(spec: str) -> bool:
    return spec.partition(":")[0] in REMOTE_KINDS


def _ask(spec: str, context: PluginContext) -> ModuleProfile | PipestreamError | None:
    """Return what a module says about itself, or why it could not be asked; None: there is no such module."""
    try:
        with closing(resolve_module(spec, context)) as module:
            return profile_of(module)
    except (GraphInvalid, PluginBroken, SettingsInvalid, ValueError):
        return None  # reported where the module is looked up
    except PipestreamError as error:
        return error


def _report_silent(place: str, error: PipestreamError, report: Report, *, is_required: bool) -> None:
    tell = report.problem if is_required else report.warning
    verb = "answered with an error" if isinstance(error, ModuleFailed) else "did not answer"
    tell(
        f"{place}.module",
        f"the module {verb}, so its config was not checked: {error}",
        "start it, or see why it fails, and check again",
    )


def _check_config(place: str, node: Node, profile: ModuleProfile, report: Report) -> None:
    try:
        found = [] if profile.config_schema is None else check_config(profile.config_schema, node.config)
    except SchemaUnusable as error:
        report.warning(
            f"{place}.module", f"the config is not checked, because the module's schema is unusable: {error}"
        )
        return
    if profile.problem:
        report.warning(f"{place}.module", f"the config is not checked: {profile.problem}")
    name = profile.name or node.module
    for problem in found:
        where = f"{place}.config.{problem.path}" if problem.path else f"{place}.config"
        report.problem(where, f"the schema of {name} refuses it: {problem.message}")
