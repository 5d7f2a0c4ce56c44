"""The local stack: real servers as child processes, for development, the demo and the tests."""

from __future__ import annotations

from pipestream.local.spec import StackSpec, load_spec
from pipestream.local.stack import ServerHandle, ServerStatus, Stack

__all__ = ["ServerHandle", "ServerStatus", "Stack", "StackSpec", "load_spec"]
