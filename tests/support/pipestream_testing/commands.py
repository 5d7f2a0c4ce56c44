"""Run ``pipestream`` in the process of a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipestream.cli.main import main

if TYPE_CHECKING:
    import pytest


class Ran(NamedTuple):
    """How a command ended, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def make_run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs ``pipestream`` with arguments."""

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run
