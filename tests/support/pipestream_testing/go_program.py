"""Programs in Go that tests and benchmarks use. Go itself is what builds the servers of the local stack."""

from __future__ import annotations

from pathlib import Path

from pipestream.local.gotools import find_go
from pipestream.local.tools import run_tool


def build_go(source: Path, folder: Path) -> Path:
    """Build the program of a folder with a ``go.mod`` into another folder."""
    go, _ = find_go(print)
    program = folder / source.name
    environment = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    argv = [go, "build", "-trimpath", "-o", program, "."]
    run_tool(argv, f"building {source.name}", environment=environment, cwd=source, timeout_s=600, tries=3)
    return program
