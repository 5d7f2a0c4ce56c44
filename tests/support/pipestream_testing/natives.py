"""Functions that crash and hang as native code does, for the tests of runtimes."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestream.errors import ModuleUnavailable
from pipestream.modules.declare import declare_module
from pipestream.modules.module import Answer, HopStatus

if TYPE_CHECKING:
    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc


@declare_module(is_parser=True, config_schema={"type": "object"}, name="natives")
def step(document: PipeDoc, context: ModuleContext) -> Any:
    """Do what the document's title says, and put the pid into ``metadata``."""
    document.search_metadata.metadata["pid"] = str(os.getpid())
    document.search_metadata.metadata["context"] = f"{context.stream_id} {context.attempt} {context.idempotency_key}"
    match document.search_metadata.title:
        case "crash":
            sys.stderr.write("about to crash\n")
            ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "hang":
            time.sleep(3_600)
        case "hang in native code":
            re.match(r"(a+)+$", "a" * 40 + "b")  # holds the interpreter's lock for years
        case "crash once":
            marker = Path(context.config["marker"])
            if not marker.exists():
                marker.touch()
                ctypes.string_at(0)
        case "leave a child":
            child = subprocess.Popen(["sleep", "3600"])
            document.search_metadata.metadata["child"] = str(child.pid)
        case "raise":
            raise ValueError("broken on purpose")
        case "unavailable":
            raise ModuleUnavailable("come back later")
        case "many":
            return [document, document, document]
        case "none":
            return None
        case "part":
            return Answer([document], HopStatus.PARTIAL, ["page 3 is blank"])
        case "all memory":
            bytes(100 * 1024**3)
    return document


def shout(payload: dict[str, Any]) -> dict[str, Any]:
    """A function of one argument, which knows nothing of us."""
    return {**payload, "doc_id": payload["doc_id"].upper()}
