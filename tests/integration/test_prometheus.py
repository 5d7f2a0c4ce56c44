from __future__ import annotations

import json
import re
import socket
import subprocess
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from pipestream.leases import open_lease_store
from pipestream.leases.store import DesiredState
from pipestream.ledger import Ledger
from pipestream.telemetry.endpoint import TelemetryEndpoint
from pipestream.telemetry.health import Health
from pipestream.views.exporter import DrainedCollector, StandingCollector
from pipestream.views.standing import StandingView
from pipestream.views.totals import DrainTotals
from pipestream_testing.documented_metrics import documented_metrics
from pipestream_testing.drains import DrainProcess
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.prometheus import find_program, run_prometheus
from pipestream_testing.waiting import wait_until

FILES = Path(__file__).resolve().parents[2] / "docker"
ALERTS = FILES / "prometheus" / "alerts.yaml"
DASHBOARD = FILES / "grafana" / "pipestream.json"


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def graph_text(unique):
    return f"""
graph: {unique}
cluster: {unique}
datasources: [{{id: {unique}, account: acme, entry: slow}}]
nodes: [{{id: slow, module: "python:pipestream_testing.modules:hanging", timeout_s: 0.2}}]
"""


def standing_of(pipeline):
    with closing(open_lease_store(pipeline.settings)) as leases:
        registry = CollectorRegistry()
        registry.register(StandingCollector(StandingView(pipeline.settings, leases), lambda: [pipeline.graph]))
        return generate_latest(registry).decode()


def test_an_alert_fires_when_a_module_times_out(pipeline, unique, tmp_path, free_port):
    with (
        TelemetryEndpoint("127.0.0.1", 0, lambda: Health(True)) as endpoint,
        run_prometheus(tmp_path, free_port, ALERTS, [endpoint.address]) as prometheus,
    ):
        pipeline.send(f"intake.{unique}", ["a"])
        pipeline.drain(f"intake.{unique}", "run")

        # Other tests of this process may have let modules time out, too: each queue has an alert of its own.
        alert = {"alertname": "PipestreamModuleTimeout", "queue": f"pipestream.{unique}.slow"}
        wait_until(lambda: prometheus.firing(**alert), "no alert fired")
        letters = f'pipestream_engine_dlq_published_total{{graph="{unique}"}}'
        (letter,) = wait_until(lambda: prometheus.query(letters), "the dead letter was not counted")
        assert letter["metric"]["error_type"] == "ModuleTimeout"
        assert letter["value"][1] == "1"


def test_an_alert_fires_before_documents_are_too_old_and_not_for_a_stopped_topic(settings, unique, tmp_path, free_port):
    text = "graph: {name}\ncluster: {name}\nage_target_seconds: 3600\n"
    text += "datasources: [{{id: {name}, account: acme, entry: only}}]\nnodes: [{{id: only, type: connector}}]\n"
    pipelines = []
    for name in (unique, f"{unique}-stopped"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text.format(name=name))
        pipelines.append(Pipeline(settings, file))
        pipelines[-1].create_topics()
        pipelines[-1].send(f"intake.{name}", ["old"], timestamp=datetime.now(UTC) - timedelta(hours=2))
    with closing(open_lease_store(settings)) as leases, registered(settings, leases, pipelines):
        leases.set_desired(f"intake.{unique}-stopped", DesiredState(started=False))
        with (
            TelemetryEndpoint("127.0.0.1", 0, lambda: Health(True)) as endpoint,
            run_prometheus(tmp_path, free_port, ALERTS, [endpoint.address]) as prometheus,
        ):
            alert = {"alertname": "PipestreamDocumentsTooOld"}
            wait_until(lambda: prometheus.firing(**alert, graph=unique), "no alert fired")
            assert prometheus.query(f'pipestream_graph_age_target_seconds{{graph="{unique}-stopped"}}')
            assert not prometheus.firing(**alert, graph=f"{unique}-stopped")

            pipelines[0].drain(f"intake.{unique}", "run")
            wait_until(lambda: not prometheus.firing(**alert, graph=unique), "the alert goes on")


def test_alerts_fire_for_the_dead_letters_of_a_batch_run_that_has_ended(pipeline, unique, tmp_path, free_port):
    pipeline.send(f"intake.{unique}", ["a"])
    with (
        closing(open_lease_store(pipeline.settings)) as leases,
        registered(pipeline.settings, leases, [pipeline]),
        TelemetryEndpoint("127.0.0.1", 0, lambda: Health(True)) as endpoint,
        run_prometheus(tmp_path, free_port, ALERTS, [endpoint.address]) as prometheus,
    ):
        letters = f'pipestream_drained_dead_letters_total{{graph="{unique}",lane="live",topic="intake.{unique}"}}'
        (before,) = wait_until(lambda: prometheus.query(letters), "nothing is counted")
        assert before["value"][1] == "0"

        drain = DrainProcess(pipeline, f"intake.{unique}", "run", "")
        assert drain.wait() == 0, drain.log

        alert = {"alertname": "PipestreamDrainsWriteDeadLetters", "topic": f"intake.{unique}"}
        wait_until(lambda: prometheus.firing(**alert), "no alert fired")
        wait_until(lambda: prometheus.firing(alertname="PipestreamDrainsMostlyFail", graph=unique), "no alert fired")
        assert not prometheus.query(f'pipestream_engine_dlq_published_total{{graph="{unique}"}}')


@contextmanager
def registered(settings, leases, pipelines):
    """Have this process's metrics say where some pipelines stand, and what was drained of them."""

    def find_graphs():
        return [each.graph for each in pipelines]

    collectors = (
        StandingCollector(StandingView(settings, leases), find_graphs),
        DrainedCollector(DrainTotals(Ledger(settings)), find_graphs),
    )
    for collector in collectors:
        REGISTRY.register(collector)
    try:
        yield
    finally:
        for collector in collectors:
            REGISTRY.unregister(collector)


def test_lag_age_and_dead_letters_are_computed_when_asked(pipeline, unique):
    topic = f'{{graph="{unique}",topic="intake.{unique}"}}'
    pipeline.send(f"intake.{unique}", ["a", "b"])

    before = standing_of(pipeline)
    pipeline.drain(f"intake.{unique}", "run")
    after = standing_of(pipeline)

    assert f"pipestream_topic_lag_records{topic} 2.0" in before
    assert float(re.search(rf"age_seconds{re.escape(topic)} (\S+)", before)[1]) > 0
    assert f"pipestream_topic_lag_records{topic} 0.0" in after
    assert f"pipestream_topic_oldest_record_age_seconds{topic} 0.0" in after
    held = re.search(rf'dead_letters_held{{topic="dlq.intake.{unique}"}} (\S+)', after)
    assert float(held[1]) >= 2
    assert "pipestream_standing_up 1.0" in after


def test_a_broker_that_is_gone_shows_in_one_metric(pipeline, free_port):
    gone = pipeline.settings.model_copy(update={"kafka_bootstrap": f"127.0.0.1:{free_port}", "kafka_timeout_s": 1.0})
    with closing(open_lease_store(pipeline.settings)) as leases:
        registry = CollectorRegistry()
        registry.register(StandingCollector(StandingView(gone, leases), lambda: [pipeline.graph]))

        assert "pipestream_standing_up 0.0" in generate_latest(registry).decode()


def test_the_rules_are_valid_for_prometheus():
    done = subprocess.run(
        [find_program("promtool"), "check", "rules", ALERTS], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=["alerts", "dashboard"])
def test_alerts_and_dashboard_use_only_metrics_that_are_documented(file):
    """That each documented metric is written is tested in ``test_metrics_written.py``."""
    text = file.read_text() if file is ALERTS else "\n".join(_expressions(json.loads(file.read_text())))

    used = {name.removesuffix("_bucket") for name in re.findall(r"pipestream_[a-z_]+", text)}

    assert len(used) > 5
    assert used <= documented_metrics()


def _expressions(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
