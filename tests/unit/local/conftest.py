from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def make_program() -> Callable[[Path, str], Path]:
    """Makes a program at a path, folders included: a shell script."""

    def make(file: Path, script: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    return make
