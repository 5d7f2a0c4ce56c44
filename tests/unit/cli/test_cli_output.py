from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipestream.cli import output
from pipestream.ledger import EntryKind


@dataclass(frozen=True)
class Pair:
    kind: EntryKind
    at: datetime


def test_values_become_json(capsys):
    pair = Pair(EntryKind.RECOVERED, datetime(2026, 1, 2, tzinfo=UTC))

    output.emit_json({"pairs": (pair,), 1: Path("a/b"), "none": None})

    assert json.loads(capsys.readouterr().out) == {
        "pairs": [{"kind": "recovered", "at": "2026-01-02T00:00:00+00:00"}],
        "1": "a/b",
        "none": None,
    }


def test_a_table_in_a_pipe_is_written_in_full_without_trailing_blanks(capsys):
    long = "x" * 300

    output.show_table(["name", "count"], [[long, 12_345], ["[b]short[/b]", None]], numbers=["count"])

    lines = capsys.readouterr().out.splitlines()
    assert any(long in line and "12 345" in line for line in lines)
    assert any("[b]short[/b]" in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_notes_go_to_stderr_alone(capsys):
    output.note("[going] on")

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "[going] on\n")
