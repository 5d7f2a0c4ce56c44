"""``pipestream engine serve`` as a process: ready line, workers, metrics, graceful stop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import grpc
import pytest

from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.rpc.channels import open_channel
from pipestream.rpc.security import ChannelSecurity
from pipestream_testing.certificates import Authority
from pipestream_testing.engines import apply, handoff
from pipestream_testing.pipeline import read_topic
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack
READY = re.compile(r"engine ready on (\S+) \(pid \d+\)(?:, metrics on (\S+))?")


def graph_text(unique):
    return f"""
graph: {unique}
cluster: {unique}
datasources: [{{id: {unique}, account: acme, entry: first}}]
nodes:
  - {{id: first, type: connector}}
  - {{id: second, module: "python:pipestream_testing.steps:pass_on"}}
edges: [{{from: first, to: second}}]
"""


@contextmanager
def serving(settings, folder, *arguments):
    """Run the command, and yield the process with its address and that of its metrics."""
    file = folder / "engine.toml"
    write_settings(file, settings)
    command = [sys.executable, "-m", "pipestream.cli.main", "engine", "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PIPESTREAM_CONFIG": str(file)},
        start_new_session=True,
    ) as process:
        try:
            ready = READY.match(process.stdout.readline())
            assert ready
            yield process, ready[1], ready[2]
        finally:
            process.kill()


def test_a_served_engine_takes_documents_shows_metrics_and_stops_with_zero(settings, unique, tmp_path):
    apply(settings, graph_text(unique))
    settings = settings.model_copy(update={"engine_name": unique})

    with serving(settings, tmp_path, "--workers", "1", "--metrics-port", "0") as (process, address, metrics):
        with open_channel(address) as channel:
            answer = EngineV1ServiceStub(channel).IntakeHandoff(handoff(unique, "doc-1"), timeout=120)
        page = urllib.request.urlopen(metrics, timeout=60).read().decode()
        health = json.load(urllib.request.urlopen(metrics.replace("/metrics", "/health"), timeout=60))
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    assert answer.accepted
    assert f'pipestream_messages_received_total{{queue="intake.{unique}",transport="grpc"}} 1.0' in page
    assert 'IntakeHandoff"' in page
    assert health["status"] == "SERVING"
    assert health["graphs"] == {unique: 1}
    assert code == 0
    assert [each.doc_id for each in read_topic(settings, f"pipestream.{unique}.second")] == ["doc-1"]


def hand_off_patiently(channel, unique, doc_id):
    """Hand a document over as clients should: again, with the same key, while the answer is UNAVAILABLE."""

    def attempt():
        try:
            stub = EngineV1ServiceStub(channel)
            return stub.IntakeHandoff(handoff(unique, doc_id), timeout=60, metadata=[(IDEMPOTENCY_KEY, doc_id)])
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return None

    return wait_until(attempt)


def test_workers_behind_one_port_accept_a_key_once_whoever_gets_the_call(settings, unique, tmp_path):
    apply(settings, graph_text(unique))
    settings = settings.model_copy(update={"engine_name": unique})

    with serving(settings, tmp_path, "--workers", "2") as (process, address, _):
        streams = set()
        for number in range(12):
            # A connection each, which the kernel gives to one of the workers.
            options = [("grpc.use_local_subchannel_pool", 1)]
            with open_channel(address, options=options) as channel:
                streams.add(hand_off_patiently(channel, unique, f"doc-{number % 3}").assigned_stream_id)
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    found = read_topic(settings, f"pipestream.{unique}.second")
    assert len(streams) == 3
    assert sorted(each.doc_id for each in found) == ["doc-0", "doc-1", "doc-2"]
    assert code == 0


def test_an_engine_with_mutual_tls_and_a_token_serves_only_clients_that_have_both(settings, unique, tmp_path):
    apply(settings, graph_text(unique))
    authority = Authority(tmp_path, "ca")
    server, client = authority.issue("server"), authority.issue("client")
    settings = settings.model_copy(
        update={
            "engine_name": unique,
            "grpc_tls_cert_file": server.certificate,
            "grpc_tls_key_file": server.key,
            "grpc_tls_client_ca_file": authority.certificate,
            "grpc_token": "secret",
        }
    )
    right = ChannelSecurity(authority.certificate, client.certificate, client.key, "secret")
    no_token = ChannelSecurity(authority.certificate, client.certificate, client.key)
    no_certificate = ChannelSecurity(authority.certificate, token="secret")

    with serving(settings, tmp_path, "--workers", "1") as (_, address, _):
        codes = []
        for security in (right, no_token, no_certificate):
            with open_channel(address, security) as channel:
                try:
                    EngineV1ServiceStub(channel).GetHealth(pb.GetHealthRequest(), timeout=60)
                    codes.append(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    codes.append(error.code())

    assert codes == [grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE]
