"""Turn a node's ``module`` into something that can be called; the kinds of the product are plugins here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import GraphInvalid, Problem
from pipestream.plugins import PluginContext, PluginGroup, find_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pipestream.modules.module import Module, ModuleContext
    from pipestream.wire import PipeDoc


_HINT = (
    "use python:package.module:function, runtime:package.module:function (in a process of its own), grpc:host:port or "
    "unix:/path/to.sock; empty passes documents through"
)


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """A module's address, taken apart."""

    kind: str
    """``identity`` for none, else a module kind: ``python``, ``runtime``, ``grpc``, ``unix``, or a plugin's."""
    target: str = ""


class IdentityModule:
    """Passes every document through."""

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc]:  # noqa: ARG002
        return [document]

    def close(self) -> None:
        """It holds nothing."""


def parse_module(spec: str) -> ModuleSpec:
    """Parse a node's ``module``, without checking whether the module exists.

    :raises GraphInvalid: it does not follow any of the forms.
    """
    if not spec:
        return ModuleSpec("identity")
    kind, _, target = spec.partition(":")
    match kind:
        case "python" | "runtime":
            package, _, function = target.partition(":")
            names = [*package.split("."), function]
            if all(name.isidentifier() for name in names):
                return ModuleSpec(kind, target)
        case "grpc":
            host, _, port = target.rpartition(":")
            if host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536:
                return ModuleSpec("grpc", target)
        case "unix":
            # Linux keeps 108 bytes for a socket's path, with the closing zero.
            if target.startswith("/") and len(target.encode()) < 108:
                return ModuleSpec("unix", target)
        case _ if target and find_plugin(PluginGroup.MODULE_KIND, kind):
            # Only its own code knows what a target of another package's kind looks like.
            return ModuleSpec(kind, target)
    others = sorted(set(plugin_names(PluginGroup.MODULE_KIND)) - {"python", "runtime", "grpc", "unix"})
    installed = f"; installed kinds: {', '.join(others)}" if others else ""
    raise _invalid(spec, f"{spec!r} is not a module", _HINT + installed)


def resolve_module(spec: str, context: PluginContext | None = None) -> Module:
    """Return the module that ``spec`` names. Close it when done.

    A Python module is imported here; a remote one is reached at its first document.

    :param context: settings and secrets for a module kind; those of this process unless given.
    :raises GraphInvalid: the spec is malformed, or names a Python callable that does not exist. The graph is wrong,
        not a document, so the run ends.
    :raises PluginBroken: its kind is of another package, and fails.
    """
    parsed = parse_module(spec)
    if parsed.kind == "identity":
        return IdentityModule()
    plugin = find_plugin(PluginGroup.MODULE_KIND, parsed.kind)
    assert plugin is not None, "parse_module has found it"
    try:
        module: Module = plugin.make(parsed.target, context or PluginContext())
    except ValueError as error:
        raise _invalid(spec, f"{spec!r} is not a module: {error}") from error
    return module


def open_python(target: str, _context: PluginContext) -> Module:
    """Return the module that calls a Python callable, which is imported now.

    :raises GraphInvalid: the callable is not there.
    """
    from pipestream.modules.callables import CallableModule

    return CallableModule(import_callable(target), f"python:{target}")


def open_grpc(target: str, context: PluginContext) -> Module:
    """Return the module that calls a gRPC service, which is reached at the first document."""
    from pipestream.modules.connection import module_limits, module_security
    from pipestream.modules.remote import GrpcModule

    return GrpcModule(target, module_security(context.settings), module_limits(context.settings))


def open_unix(target: str, _context: PluginContext) -> Module:
    """Return the module that sends documents to a Unix socket, which is reached at the first document."""
    from pipestream.modules.unix import SocketModule

    return SocketModule(target)


def import_callable(target: str) -> Callable[[PipeDoc, ModuleContext], Any]:
    """Import ``package.module:function``.

    :raises GraphInvalid: it is not there, or cannot be called.
    """
    package, _, name = target.partition(":")
    try:
        function = getattr(importlib.import_module(package), name, None)
    except Exception as error:
        hint = "put it into modules/, or install it in the environment that runs the drains"
        raise _invalid(f"python:{target}", f"cannot import {package}: {type(error).__name__}: {error}", hint) from error
    if function is None:
        raise _invalid(f"python:{target}", f"{package} has no {name}")
    if not callable(function):
        raise _invalid(f"python:{target}", f"{name} of {package} is {type(function).__name__}, which cannot be called")
    return function  # type: ignore[no-any-return]


def _invalid(spec: str, message: str, hint: str = "") -> GraphInvalid:
    return GraphInvalid([Problem(file=spec or "graph", line=None, field="module", message=message, hint=hint)])
