"""The local stack: real servers as child processes, for development, the demo and the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipestream.extras import needs_extra
from pipestream.local.spec import StackSpec, load_spec

if TYPE_CHECKING:
    from pipestream.local.stack import ServerHandle, ServerStatus, Stack

__all__ = ["ServerHandle", "ServerStatus", "Stack", "StackSpec", "load_spec"]


def __getattr__(name: str) -> Any:
    """Import the code that starts servers when it is first used, because only that needs the extra ``local``."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("local"):
        from pipestream.local import stack
    return getattr(stack, name)
