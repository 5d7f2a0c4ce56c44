from __future__ import annotations

from pathlib import Path

import pytest

from pipestream.cli.demo import next_steps, short_path
from pipestream.demo.run import DemoResult
from pipestream.demo.summary import Summary


@pytest.fixture
def result(tmp_path, monkeypatch) -> DemoResult:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".pipestream" / "demo"
    summary = Summary(1, 1, 1, 0, 0, 0, ())
    return DemoResult(summary, (), (), (), 61.4, folder, folder / "stack.toml", folder / "logs")


def test_a_path_below_the_current_folder_is_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert short_path(tmp_path / "a" / "b") == "a/b"
    assert short_path(Path("/elsewhere/b")) == "/elsewhere/b"


def test_the_next_steps_name_the_ledger_the_pages_and_the_logs(result):
    text = "\n".join(next_steps(result, keep=False))

    assert "PIPESTREAM_CONFIG=.pipestream/demo/stack.toml" in text
    assert "http://127.0.0.1:18080" in text
    assert ".pipestream/demo/logs" in text
    assert "stop the servers" not in text


def test_for_servers_that_were_kept_the_command_to_stop_is_shown(result):
    assert next_steps(result, keep=True)[-1].startswith(
        "  stop the servers     PIPESTREAM_STACK_FOLDER=.pipestream/demo "
    )
