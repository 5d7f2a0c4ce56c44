"""Commands of servers: how they are told apart from their defaults, how they end, and what they answer."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pipestream.cli import sidecar, spark
from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2 import (
    GetConsumerConfigResponse,
    GraphConsumerConfig,
)

METRICS = [sys.executable, "-m", "pipestream.cli.main", "metrics", "--serve", "--port"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_exporter_ends_with_0_when_it_is_told_to_stop(tmp_path, number):
    with subprocess.Popen([*METRICS, "0"], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as exporter:
        assert any("metrics are ready" in line for line in exporter.stderr)

        exporter.send_signal(number)

        assert exporter.wait() == 0
        assert "interrupted" not in exporter.stderr.read()


def test_a_port_of_the_exporter_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([*METRICS, port], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.returncode == 2
    assert f"cannot answer /metrics and /health on 127.0.0.1:{port}" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "options", "master"),
    [
        ("", [], "local[8]"),
        ("local[2]", [], "local[2]"),
        ("spark://b:7077", [], "spark://b:7077"),
        ("", ["--master", "local[2]"], "local[2]"),
        ("local[4]", ["--master", "spark://a:7077"], "spark://a:7077"),
    ],
)
def test_a_master_that_is_given_is_used(run, monkeypatch, setting, options, master):
    commands = []
    if setting:
        monkeypatch.setenv("PIPESTREAM_SPARK_MASTER", setting)
    monkeypatch.setenv("PIPESTREAM_SPARK_CONNECT_TOKEN", "a-long-random-text")
    monkeypatch.setattr(spark.os, "execve", lambda _, command, __: commands.append(command))

    assert run("spark", "serve", *options).code == 0

    (command,) = commands
    assert command[command.index("--master") + 1] == master


def test_a_cluster_of_a_sidecar_without_topics_has_none_in_json(run, monkeypatch):
    configs = [GraphConsumerConfig(cluster_id="a"), GraphConsumerConfig(cluster_id="b", topics=["x", "y"])]

    @contextmanager
    def calling(_):
        yield lambda *_: GetConsumerConfigResponse(configs=configs)

    monkeypatch.setattr(sidecar, "_calling", calling)

    assert [each["topics"] for each in json.loads(run("sidecar", "config", "--json").out)] == [[], ["x", "y"]]
