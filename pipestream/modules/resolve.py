"""Turn a node's ``module`` into something that can be called."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipestream.errors import GraphInvalid, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pipestream.modules.module import Module, ModuleContext
    from pipestream.wire import PipeDoc

_HINT = "use python:package.module:function, grpc:host:port or unix:/path/to.sock; empty passes documents through"


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """A module's address, taken apart."""

    kind: Literal["identity", "python", "grpc", "unix"]
    target: str = ""


class IdentityModule:
    """Passes every document through."""

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc]:  # noqa: ARG002
        return [document]

    def close(self) -> None:
        """It holds nothing."""


def parse_module(spec: str) -> ModuleSpec:
    """Take a node's ``module`` apart, without looking whether the module is there.

    :raises GraphInvalid: it does not follow any of the forms.
    """
    if not spec:
        return ModuleSpec("identity")
    kind, _, target = spec.partition(":")
    match kind:
        case "python":
            package, _, function = target.partition(":")
            names = [*package.split("."), function]
            if all(name.isidentifier() for name in names):
                return ModuleSpec("python", target)
        case "grpc":
            host, _, port = target.rpartition(":")
            if host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536:
                return ModuleSpec("grpc", target)
        case "unix":
            # Linux keeps 108 bytes for a socket's path, with the closing zero.
            if target.startswith("/") and len(target.encode()) < 108:
                return ModuleSpec("unix", target)
    raise _invalid(spec, f"{spec!r} is not a module", _HINT)


def resolve_module(spec: str) -> Module:
    """Return the module that ``spec`` names. Close it when done.

    A Python module is imported here; a remote one is reached at its first document.

    :raises GraphInvalid: the spec is malformed, or names a Python callable that is not there. It is the graph
        that is wrong, so the run ends; no document is to blame.
    """
    parsed = parse_module(spec)
    match parsed.kind:
        case "python":
            from pipestream.modules.callables import CallableModule

            return CallableModule(_import(spec, parsed.target), spec)
        case "grpc":
            from pipestream.modules.remote import GrpcModule

            return GrpcModule(parsed.target)
        case "unix":
            from pipestream.modules.unix import SocketModule

            return SocketModule(parsed.target)
        case "identity":
            return IdentityModule()


def _import(spec: str, target: str) -> Callable[[PipeDoc, ModuleContext], Any]:
    package, _, name = target.partition(":")
    try:
        function = getattr(importlib.import_module(package), name, None)
    except Exception as error:
        hint = "install it in the environment that runs the drains"
        raise _invalid(spec, f"cannot import {package}: {type(error).__name__}: {error}", hint) from error
    if function is None:
        raise _invalid(spec, f"{package} has no {name}")
    if not callable(function):
        raise _invalid(spec, f"{name} of {package} is {type(function).__name__}, which cannot be called")
    return function  # type: ignore[no-any-return]


def _invalid(spec: str, message: str, hint: str = "") -> GraphInvalid:
    return GraphInvalid([Problem(file=spec or "graph", line=None, field="module", message=message, hint=hint)])
