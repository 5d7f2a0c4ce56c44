"""What servers say of themselves while what they need is away, and after it is back."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pipestream.engine_server.server import EngineOptions
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream_testing.engines import apply, engine
from pipestream_testing.repository_process import RepositoryProcess, apply_graph
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

_PATIENCE_S = 240
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def ask(address, path="/health"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def settings(breakable_settings):
    """These tests break servers, so they have some of their own."""
    return breakable_settings


@contextmanager
def away(server):
    server.kill()
    try:
        yield
    finally:
        server.start()


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


def test_an_engine_without_kafka_takes_no_calls_and_is_alive(breakable_stack, settings, unique):
    apply(settings, graph_text(unique))
    settings = settings.model_copy(update={"engine_name": unique, "kafka_timeout_s": 3})
    with engine(settings, EngineOptions(metrics_port=0)) as live:
        metrics = live.running.metrics
        grpc_health = health_pb2_grpc.HealthStub(live.channel)

        def serves():
            return grpc_health.Check(health_pb2.HealthCheckRequest(), timeout=60).status

        wait_until(lambda: ask(metrics)[0] == 200, "the engine is not ready", timeout_s=_PATIENCE_S)
        with away(breakable_stack.server("kafka")):
            wait_until(lambda: ask(metrics)[0] == 503, "nobody noticed", timeout_s=_PATIENCE_S)
            said = ask(metrics)[1]
            alive = ask(metrics, "/health/live")[0]
            wait_until(lambda: serves() == _NOT_SERVING, "gRPC's health serves", timeout_s=_PATIENCE_S)
            found = live.stub.GetHealth(pb.GetHealthRequest(), timeout=120)
        wait_until(lambda: ask(metrics)[0] == 200, "the engine is not ready again", timeout_s=_PATIENCE_S)

    assert (said["status"], said["alive"], alive) == ("NOT_SERVING", True, 200)
    assert [each for each in said["problems"] if each.startswith("Kafka: ")]
    assert found.health == pb.ENGINE_HEALTH_UNHEALTHY


def test_an_engine_without_its_lease_store_says_so_in_its_health(breakable_stack, settings, unique):
    address = breakable_stack.settings().consul_address
    leases = {"leases": "consul", "consul_address": address, "lease_ttl_s": 3600}
    settings = settings.model_copy(update={"engine_name": unique, **leases})
    with engine(settings, EngineOptions(metrics_port=0)) as live:
        metrics = live.running.metrics
        before = live.stub.GetHealth(pb.GetHealthRequest(), timeout=120)
        with away(breakable_stack.server("consul")):
            found = live.stub.GetHealth(pb.GetHealthRequest(), timeout=120)
            wait_until(
                lambda: "leases are not looked after" in str(ask(metrics)[1]), "nobody noticed", timeout_s=_PATIENCE_S
            )
            ready = ask(metrics)[0]

    assert (before.health, found.health) == (pb.ENGINE_HEALTH_HEALTHY, pb.ENGINE_HEALTH_DEGRADED)
    assert ready == 200


def test_a_repository_without_postgresql_takes_nothing_and_is_alive(breakable_stack, pipeline, tmp_path):
    apply_graph(pipeline)
    with RepositoryProcess(pipeline, tmp_path / "repository") as repository:
        address = repository.http.removeprefix("http://")
        wait_until(lambda: ask(address)[0] == 200, "it is not ready", timeout_s=_PATIENCE_S)
        with away(breakable_stack.server("postgres")):
            wait_until(lambda: ask(address)[0] == 503, "nobody noticed", timeout_s=_PATIENCE_S)
            said = ask(address)[1]
            alive = ask(address, "/health/live")[0]
        wait_until(lambda: ask(address)[0] == 200, "it is not ready again", timeout_s=_PATIENCE_S)

    assert (said["alive"], alive) == (True, 200)
    assert [each for each in said["problems"] if each.startswith("PostgreSQL: ")]
