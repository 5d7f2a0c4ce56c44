"""A drain that is told to stop ends through its context managers, in which it releases its lease."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

GRAPH = """
graph: a
cluster: c
datasources: [{id: a, account: x, entry: n}]
nodes: [{id: n, type: connector}]
"""

SCRIPT = """\
import os, signal, sys
from unittest.mock import patch
from pipestream.cli.main import main

def be_told_to_stop(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        print("the lease is released")

with patch(sys.argv.pop(1), be_told_to_stop):
    sys.exit(main())
"""

IN_THIS_PROCESS = "pipestream.api.requests.run_request"
ON_SPARK = "pipestream.cli.submit.drain_on_spark"


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        (IN_THIS_PROCESS, "drain --graph a.yaml --topic intake.a"),
        (IN_THIS_PROCESS, "backfill again --graph a.yaml --topic intake.a --offsets 0:0-1"),
        (ON_SPARK, "drain --graph a.yaml --topic intake.a --spark"),
    ],
)
def test_a_drain_that_gets_sigterm_releases_its_lease(tmp_path, replaced, words):
    (tmp_path / "a.yaml").write_text(GRAPH)

    command = [sys.executable, "-c", SCRIPT, replaced, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert "the lease is released" in done.stdout
