from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from pipestream.local.state import write_settings
from pipestream.testing.pipeline import Pipeline


@pytest.fixture
def pipeline(settings, unique, tmp_path, request):
    """A pipeline whose leases expire quickly and whose ranges take several transactions."""
    template = request.config.rootpath / "tests" / "data" / "exactly_once.yaml"
    file = tmp_path / f"{unique}.yaml"
    file.write_text(template.read_text().replace("UNIQUE", unique))
    made = Pipeline(settings.model_copy(update={"chunk_records": 10, "lease_ttl_s": 3.0}), file)
    made.create_topics()
    return made


@pytest.fixture
def start_drain(pipeline, tmp_path):
    """Start a drain in a process of its own, with a fault if asked for."""
    config = tmp_path / "drain.toml"
    write_settings(config, pipeline.settings)
    started = []

    def start(topic, run_id, fault=None):
        environment = {**os.environ, "PIPESTREAM_CONFIG": str(config)}
        if fault:
            environment["PIPESTREAM_FAULT"] = fault
        command = [sys.executable, "-m", "pipestream.testing.drain_process", str(pipeline.graph_file), topic, run_id]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def drain_when_free(pipeline):
    """Drain as soon as the lease of a run that died has expired."""

    def drain(topic, run_id, deadline_s=30):
        deadline = time.monotonic() + deadline_s
        while True:
            report = pipeline.drain(topic, run_id)
            if report.status != "skipped":
                return report
            assert time.monotonic() < deadline, report.reason
            time.sleep(0.2)

    return drain
