"""The operator with spark-submit and a standalone cluster: a task that is killed ends what it has started."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import closing

import pytest
from airflow.sdk.exceptions import AirflowException

from pipestream import faults
from pipestream.leases import open_lease_store
from pipestream.local.tools import get_json
from pipestream.settings import CONFIG_VARIABLE
from pipestream_airflow.drain_operator import DrainOperator
from pipestream_testing.drains import Gate
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.slow]

# More than the test may take: a lease that is only left to run out is not free when it ends.
LEASE_TTL_S = 3600.0


@pytest.fixture
def make_operator(pipeline, unique, monkeypatch, tmp_path, stack, spark_cluster):
    """Make the task of the pipeline's intake topic, which submits to the cluster."""
    file = tmp_path / "settings.toml"
    write_settings(file, pipeline.settings.model_copy(update={"spark_mode": "submit", "lease_ttl_s": LEASE_TTL_S}))
    for name, value in {**stack.environment(), CONFIG_VARIABLE: str(file)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": spark_cluster}))

    def make():
        return DrainOperator(
            task_id="drain",
            topic=f"intake.{unique}",
            graph_file=str(pipeline.graph_file),
            stop_timeout_s=120.0,
        )

    return make


class Links:
    """The part of a task instance that takes the link to Spark's pages."""

    def __init__(self):
        self.pushed = []

    def xcom_push(self, *, key, value):
        self.pushed.append((key, value))


def find_applications(stack, topic):
    """Return the applications of a topic that the cluster's master knows as running."""
    master = get_json(f"http://127.0.0.1:{stack.site().ports.spark_ui}/json/")
    return [each["id"] for each in master["activeapps"] if topic in each["name"]]


def test_a_killed_task_ends_its_application_and_frees_its_lease_and_the_retry_does_the_rest(
    make_operator, pipeline, unique, context, monkeypatch, tmp_path, stack
):
    operator, gate = make_operator(), Gate(tmp_path / "gate")
    links = Links()
    asked = {**context(topics=[operator.topic]), "ti": links}
    pipeline.send(operator.topic, ["a", "b"])
    monkeypatch.setenv(faults.VARIABLE, gate.at(faults.CHUNK_PROCESSED))
    running = []

    def kill() -> None:
        wait_until(gate.is_reached, "no range was drained", timeout_s=400)
        running.extend(find_applications(stack, operator.topic))
        operator.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(AirflowException):
        operator.execute(asked)

    killer.join()
    assert running
    assert links.pushed
    wait_until(lambda: not find_applications(stack, operator.topic), "the application still runs")
    with closing(open_lease_store(pipeline.settings)) as leases:
        wait_until(lambda: {slot.holder for slot in leases.assignments()} == {""}, "the lease is still held")
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == {}
    monkeypatch.delenv(faults.VARIABLE)
    report = make_operator().execute(asked)
    assert (report["status"], report["records"]) == ("drained", 2)
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == Counter("ab")
    pipeline.check_ledger_tiles(operator.topic)
