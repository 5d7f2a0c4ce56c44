"""The module kinds of the product, as plugins: ``python:``, ``grpc:`` and ``unix:``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pipestream.errors import GraphInvalid, Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pipestream.modules.module import Module, ModuleContext
    from pipestream.plugins.context import PluginContext
    from pipestream.wire import PipeDoc


def open_python(target: str, _context: PluginContext) -> Module:
    """Return the module that calls a Python callable, which is imported now.

    :raises GraphInvalid: the callable is not there.
    """
    from pipestream.modules.callables import CallableModule

    return CallableModule(_import(target), f"python:{target}")


def open_grpc(target: str, _context: PluginContext) -> Module:
    """Return the module that calls a gRPC service, which is reached at the first document."""
    from pipestream.modules.remote import GrpcModule

    return GrpcModule(target)


def open_unix(target: str, _context: PluginContext) -> Module:
    """Return the module that sends documents to a Unix socket, which is reached at the first document."""
    from pipestream.modules.unix import SocketModule

    return SocketModule(target)


def _import(target: str) -> Callable[[PipeDoc, ModuleContext], Any]:
    package, _, name = target.partition(":")
    try:
        function = getattr(importlib.import_module(package), name, None)
    except Exception as error:
        hint = "install it in the environment that runs the drains"
        raise _invalid(target, f"cannot import {package}: {type(error).__name__}: {error}", hint) from error
    if function is None:
        raise _invalid(target, f"{package} has no {name}")
    if not callable(function):
        raise _invalid(target, f"{name} of {package} is {type(function).__name__}, which cannot be called")
    return function  # type: ignore[no-any-return]


def _invalid(target: str, message: str, hint: str = "") -> GraphInvalid:
    return GraphInvalid([Problem(file=f"python:{target}", line=None, field="module", message=message, hint=hint)])
