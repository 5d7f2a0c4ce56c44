"""The first questions to a broker that nobody has used: it is still making its own topics while it is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipestream.local import Stack, load_spec

pytestmark = pytest.mark.stack

# In a process of its own: what went wrong here once was a crash of the client's C library.
ASK = """
from pipestream.kafka.broker import Broker
from pipestream.settings import load_settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec

settings = load_settings()
TopicAdmin(settings).create([TopicSpec("intake.a", 2, None, Purpose.INTAKE)])
print(Broker(settings).committed("nobody-yet", "intake.a", [0, 1]))
"""


def test_a_group_that_never_committed_has_no_offsets_on_a_new_broker(tmp_path):
    spec = load_spec(profile="embedded", folder=tmp_path / "stack", free_ports=True, durable=False)
    with Stack(spec).running(names=["kafka"]) as stack:
        asked = subprocess.run(
            [sys.executable, "-c", ASK],
            env=stack.environment(),
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    assert (asked.returncode, asked.stdout.strip()) == (0, "{}"), asked.stderr
