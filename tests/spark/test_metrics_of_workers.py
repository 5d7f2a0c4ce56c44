"""What the workers of a Spark count is counted in the process that drains, where it can be scraped or pushed."""

from __future__ import annotations

from contextlib import closing

import pytest
from prometheus_client import REGISTRY

from pipestream.rpc.spark_connect import connect_place
from pipestream.settings import CONFIG_VARIABLE
from pipestream_spark.connect import open_session
from pipestream_spark.connect_runner import ConnectRunner
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.usefixtures("spark_connect")]


@pytest.fixture
def graph_text(graph_text):
    """The small graph, whose first node refuses some documents."""
    return graph_text.replace("steps:pass_on\n  - id: second", "steps:fail_on_bad\n  - id: second")


@pytest.fixture(params=["never", "always"])
def pipeline(request, pipeline, tmp_path, monkeypatch):
    """Drained by tasks that do all the work, or by tasks in two stages."""
    made = Pipeline(pipeline.settings.model_copy(update={"sub_ranges": request.param}), pipeline.graph_file)
    config = tmp_path / "settings.toml"
    write_settings(config, made.settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    return made


def test_the_process_that_drains_counts_what_its_workers_did(pipeline, unique):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a", "b", "c", "bad"], partition=0)
    pipeline.send(topic, ["d", "e"], partition=1)

    with closing(ConnectRunner(open_session(connect_place(pipeline.settings)), pipeline.settings)) as runner:
        report = pipeline.drain(topic, "run-1", runner=runner)

    assert ("sub-ranges of" in report.tasks) == (pipeline.settings.sub_ranges == "always")
    assert (report.records, report.dead_letters) == (6, 1)
    assert value("messages_received_total", queue=topic, transport="kafka") == 6
    assert value("runtime_errors_total", queue=f"pipestream.{unique}.first", error_type="execution_error") == 1
    assert value("engine_dlq_published_total", graph=unique, node="first", error_type="ModuleFailed") == 1
    assert value("queue_send_duration_seconds_count", queue=topic) >= 2


def value(name, **labels):
    return REGISTRY.get_sample_value(f"pipestream_{name}", labels)
