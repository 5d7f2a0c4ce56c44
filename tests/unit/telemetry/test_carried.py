from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest
from prometheus_client import REGISTRY

from pipestream.errors import ModuleTimeout
from pipestream.telemetry.carried import add_counts, counts_since, take_counts
from pipestream.telemetry.meter import PrometheusMeter

# Has counted something before, as a worker that is used again.
WORKER = """
import sys
from pipestream.errors import ModuleTimeout
from pipestream.telemetry.carried import counts_since, take_counts
from pipestream.telemetry.meter import PrometheusMeter

queue = sys.argv[1]
meter = PrometheusMeter(queue)

def count():
    meter.module_called(queue, 0.2, ModuleTimeout("took longer"))
    meter.received(queue, "kafka", [10, 20, 9_000_000_000])

count()
before = take_counts()
count()
print(counts_since(before))
"""


def value(name, **labels):
    return REGISTRY.get_sample_value(f"pipestream_{name}", labels)


def test_what_another_process_counted_is_added_to_the_metrics_of_this_one():
    queue = f"q{uuid.uuid4().hex[:8]}"
    PrometheusMeter(queue).module_called(queue, 7.0, ModuleTimeout("took longer"))

    done = subprocess.run([sys.executable, "-c", WORKER, queue], check=True, capture_output=True, text=True)
    add_counts(done.stdout.strip())

    assert value("runtime_errors_total", queue=queue, error_type="timeout") == 2
    assert value("messages_received_total", queue=queue, transport="kafka") == 3
    assert value("runtime_execution_duration_seconds_count", queue=queue) == 2
    assert value("runtime_execution_duration_seconds_sum", queue=queue) == 7.2
    assert value("runtime_execution_duration_seconds_bucket", queue=queue, le="0.25") == 1
    assert value("runtime_execution_duration_seconds_bucket", queue=queue, le="10.0") == 2


def test_a_process_that_counted_nothing_says_nothing():
    said = counts_since(take_counts())
    add_counts(said)

    assert said == ""


@pytest.mark.parametrize(
    "counted",
    [["GONE", ["a"], [1.0]], ["MESSAGES_FAILED", ["a"], [1.0]], ["RUNTIME_DURATION", ["a"], [1.0, 1.0]]],
    ids=["no such metric", "other labels", "other buckets"],
)
def test_a_metric_of_another_version_does_not_stop_the_others(counted):
    queue = f"q{uuid.uuid4().hex[:8]}"

    add_counts(json.dumps([counted, ["RUNTIME_ERRORS", [queue, "timeout"], [3.0]]]))

    assert value("runtime_errors_total", queue=queue, error_type="timeout") == 3
