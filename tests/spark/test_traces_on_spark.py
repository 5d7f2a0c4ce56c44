"""One trace follows a document from a webhook through batch runs on Spark."""

from __future__ import annotations

import hashlib
import hmac
from contextlib import closing

import httpx
import pytest
from pydantic import SecretStr

from pipestream.rpc.spark_connect import connect_place
from pipestream.settings import CONFIG_VARIABLE
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream_spark.connect import open_session
from pipestream_spark.connect_runner import ConnectRunner
from pipestream_testing.collector import run_collector
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.repository_process import RepositoryProcess, apply_graph
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.usefixtures("spark_connect")]
SECRET = "a-secret-of-the-sender"
EVENT = b'{"id": "event-1"}'
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector():
    with run_collector() as running:
        yield running


@pytest.fixture(params=["never", "always"])
def traced(request, pipeline, unique, collector, tmp_path, monkeypatch):
    """Drained by tasks that do all the work, or by tasks in two stages; every process exports its spans."""
    changes = {
        "sub_ranges": request.param,
        "otlp_endpoint": collector.address,
        "webhook_secrets": {unique: SecretStr(SECRET)},
    }
    made = Pipeline(pipeline.settings.model_copy(update=changes), pipeline.graph_file)
    config = tmp_path / "settings.toml"
    write_settings(config, made.settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    apply_graph(made)
    return made


def test_one_trace_follows_a_webhook_through_batch_runs_on_spark(traced, unique, collector, tmp_path):
    headers = {
        "Content-Type": "application/json",
        "X-Signature-256": "sha256=" + hmac.new(SECRET.encode(), EVENT, hashlib.sha256).hexdigest(),
        TRACEPARENT: f"00-{TRACE}-{CALLER}-01",
    }
    with RepositoryProcess(traced, tmp_path / "repository") as repository:
        answer = httpx.post(f"{repository.http}/webhooks/{unique}", content=EVENT, headers=headers, timeout=120)
        assert answer.status_code == 201, answer.text
        assert repository.stop() == 0

    with closing(ConnectRunner(open_session(connect_place(traced.settings)), traced.settings)) as runner:
        for run_id, topic in (("run-1", f"intake.{unique}"), ("run-2", f"pipestream.{unique}.second")):
            assert traced.drain(topic, run_id, runner=runner).records == 1

    assert {each.trace_id for each in collector.spans} == {TRACE}
    assert collector.way_from(CALLER) == [f"upload {unique}", "process first", "process second"]
    (end,) = traced.read(f"pipestream.{unique}.happy-end")
    assert end.stream.metadata.trace_id == TRACE
