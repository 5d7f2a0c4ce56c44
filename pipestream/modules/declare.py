"""Let a Python function say what it is: whether it reads blobs, and which config it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pipestream.modules.module import ModuleProfile

_ATTRIBUTE = "__pipestream_module__"

Function = TypeVar("Function", bound=Callable[..., Any])


def declare_module(
    *,
    is_parser: bool = False,
    is_concurrent: bool = False,
    config_schema: Mapping[str, Any] | None = None,
    name: str = "",
    version: str = "",
    description: str = "",
) -> Callable[[Function], Function]:
    """Return a decorator that gives a function (or any callable) a profile; the function itself is not changed.

    :param is_parser: it reads blobs, so blobs that are stored by reference are fetched before it is called.
    :param is_concurrent: it may be called for several documents at once, from different threads; a node can then have a
        ``concurrency``. Worth it for a function that waits for something else.
    :param config_schema: JSON Schema of a node's ``config``, which is checked when a graph is validated or applied.
    :param name: what the module is called in lists; the function's name unless given.
    """

    def declare(function: Function) -> Function:
        called = name or getattr(function, "__name__", type(function).__name__)
        profile = ModuleProfile(is_parser, config_schema, called, version, description, is_concurrent=is_concurrent)
        setattr(function, _ATTRIBUTE, profile)
        return function

    return declare


def declared_profile(function: Callable[..., Any]) -> ModuleProfile:
    """Return the profile that a callable was given; an empty one if it was not."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, ModuleProfile) else ModuleProfile()
