"""Runs commands in this process, as a shell would see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipestream.cli.main import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Run:
    """Runs ``pipestream`` with arguments, in an empty folder, so that no stack's settings are found."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run_command
