"""Every metric that ``docs/metrics.md`` promises is written by the servers and commands that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.rpc.channels import open_channel
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.documented_metrics import documented_metrics
from pipestream_testing.engine_processes import EngineProcess
from pipestream_testing.engines import handoff
from pipestream_testing.gate import Gate
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.repository_process import RepositoryProcess
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, wait_drained
from pipestream_testing.waiting import wait_until

GRAPH = """
graph: UNIQUE
cluster: UNIQUE
age_target_seconds: 3600
datasources: [{id: UNIQUE, account: acme, entry: first}]
nodes:
  - {id: first, module: "python:pipestream_testing.gate:wait_at_gate", config: {gate: "FOLDER"}}
  - {id: second, module: "python:pipestream_testing.steps:fail_on_bad"}
edges: [{from: first, to: second}]
"""


def written(page):
    """Return the metrics of a page that have a value, by the names that a person asks for."""
    found = {}
    for family in text_string_to_metric_families(page):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        values = [sample.value for sample in family.samples if not sample.name.endswith("_created")]
        if values:
            found[name] = max(values)
    return found


@pytest.fixture
def gated(settings, unique, tmp_path):
    file = tmp_path / "gated.yaml"
    file.write_text(GRAPH.replace("UNIQUE", unique).replace("FOLDER", str(tmp_path)))
    quick = {"reconcile_s": 0.3, "stream_follow_s": 0.3, "stream_record_s": 1.0, "engine_name": unique}
    made = Pipeline(settings.model_copy(update=quick), file)
    made.create_topics()
    return made


def test_every_documented_metric_is_written_by_a_real_run(gated, unique, tmp_path):
    topics = [f"intake.{unique}", f"pipestream.{unique}.second"]
    gate = Gate(tmp_path)
    apply_streaming(gated, *topics)
    engine, sidecar = EngineProcess(gated.settings, tmp_path, workers=1), SidecarProcess(gated, "sidecar")
    engine.start()
    try:
        sidecar.wait_ready()
        with RepositoryProcess(gated, tmp_path / "repository") as repository:
            upload = httpx.post(
                f"{repository.http}/uploads/{unique}", content=b"x", headers={"X-Document-Id": "a"}, timeout=120
            )
            assert upload.status_code == 201, upload.text
            gate.wait_for_arrival()
            busy = written(httpx.get(f"http://{sidecar.telemetry}/metrics", timeout=60).text)
            gate.open()
            engine.wait_ready()
            with open_channel(engine.address) as channel:
                call = EngineV1ServiceStub(channel).IntakeHandoff
                # The engine follows applied graphs: it may not have seen this one yet.
                wait_until(lambda: call(handoff(unique, "b", "bad"), timeout=120, wait_for_ready=True).accepted)
            wait_drained(gated, topics)
            servers = (engine.metrics, f"http://{sidecar.telemetry}/metrics", f"{repository.http}/metrics")
            pages = [httpx.get(address, timeout=60).text for address in servers]
        command = [sys.executable, "-m", "pipestream.cli.main", "metrics"]
        environment = {**os.environ, CONFIG_VARIABLE: str(sidecar.config)}
        pages.append(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    finally:
        with suppress(ProcessLookupError):  # it has ended
            engine.kill()
        sidecar.kill()

    found = [written(page) for page in pages]
    assert documented_metrics() - {name for each in found for name in each} == set()
    counted = {name for each in found for name, value in each.items() if value > 0}
    assert {name for name in documented_metrics() if name.endswith("_total")} - counted == set()
    assert busy["pipestream_active_messages"] == 1
    assert found[1]["pipestream_active_messages"] == 0
    assert found[1]["pipestream_engine_dlq_published_total"] == 1
    assert found[3]["pipestream_drained_dead_letters_total"] >= 1
