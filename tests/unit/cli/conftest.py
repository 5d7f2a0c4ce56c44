"""Runs commands in this process, as a shell would see them."""

from __future__ import annotations

import pytest

from pipestream_testing.commands import Run, make_run


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Run:
    """Runs ``pipestream`` with arguments, in an empty folder, so that no stack's settings are found."""
    monkeypatch.chdir(tmp_path)
    return make_run(capsys)
