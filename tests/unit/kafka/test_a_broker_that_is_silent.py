from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipestream.errors import BrokerUnavailable
from pipestream.kafka import errors
from pipestream.kafka.broker import Broker
from pipestream.settings import Settings

NOBODY = "127.0.0.1:1"


def ask(timeout_s):
    with pytest.raises(BrokerUnavailable):
        Broker(Settings(kafka_bootstrap=NOBODY, kafka_timeout_s=timeout_s)).existing()


def test_the_log_says_for_whom_a_question_waits(monkeypatch, caplog):
    monkeypatch.setattr(errors, "_SILENCE_S", 0.1)

    ask(timeout_s=2)

    notices = [each.getMessage() for each in caplog.records if each.name == errors.__name__]
    assert notices == [f"Kafka at {NOBODY} has not answered for 0.1 s; waiting up to 2 s"]


def test_the_log_says_nothing_of_a_question_that_ended_soon(monkeypatch, caplog):
    monkeypatch.setattr(errors, "_SILENCE_S", 60)

    ask(timeout_s=0.2)

    assert not [each for each in caplog.records if each.name == errors.__name__]


def test_a_command_says_that_it_waits_before_it_gives_up(tmp_path):
    (tmp_path / "dags" / "graphs").mkdir(parents=True)
    graph = "graph: one\ncluster: one\nnodes: [{id: only, type: connector}]\n"
    (tmp_path / "dags" / "graphs" / "one.yaml").write_text(graph)
    command = [sys.executable, "-m", "pipestream.cli.main", "dlq", "list"]
    environment = {**os.environ, "PIPESTREAM_KAFKA_BOOTSTRAP": NOBODY, "PIPESTREAM_KAFKA_TIMEOUT_S": "4"}

    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    assert ran.returncode == 1
    assert f"Kafka at {NOBODY} has not answered for 3 s; waiting up to 4 s" in ran.stderr
    assert ran.stderr.index("has not answered") < ran.stderr.index("error:")
