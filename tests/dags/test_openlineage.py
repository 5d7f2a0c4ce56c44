"""The OpenLineage events of ingestions and drains, as the provider of OpenLineage sends them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.sdk.exceptions import AirflowException
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from pipestream.drain.report import DrainFailure
from pipestream_airflow.ingest_operator import IngestOperator
from pipestream_testing.lineage_events import datasets_of, find_faults
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

REPOSITORY = Path(__file__).resolve().parents[2]
GRAPH = """
graph: NAME
cluster: NAME
datasources:
  - {id: NAME, account: acme, entry: first, partitions: 1, connector: {kind: folder, path: in}}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
"""


@pytest.mark.usefixtures("nothing_against_it")
def test_the_event_of_a_drain_names_topics_store_and_ledger_with_their_counts(task, spark, context, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_KAFKA_BOOTSTRAP", "broker:9092")
    monkeypatch.setenv("PIPESTREAM_STORE_URI", "s3://documents")
    monkeypatch.setenv("PIPESTREAM_LEDGER_URI", "s3://ledger/main")
    task.execute(context())

    lineage = task.get_openlineage_facets_on_complete(None)

    written = json.loads(Serde.to_json(event_of(lineage, RunState.COMPLETE)))
    assert find_faults(written) == []
    assert datasets_of(written) == {
        "inputs": {"kafka://broker:9092 intake.files": 12, "s3://documents /": None},
        "outputs": {
            "kafka://broker:9092 pipestream.main.happy-end": 12,
            "s3://documents /": None,
            "s3://ledger main": 2,
        },
    }


def test_a_task_that_did_nothing_names_no_datasets(task):
    ingest = IngestOperator(task_id="ingest", datasource_id="files", graph_file=task.graph_file)

    for each in (task, ingest):
        lineage = each.get_openlineage_facets_on_complete(None)
        assert (lineage.inputs, lineage.outputs) == ([], [])


@pytest.mark.usefixtures("nothing_against_it")
def test_the_event_of_a_drain_that_fails_keeps_to_the_specification_and_names_no_datasets(task, spark, context):
    """The provider asks the operator itself. What a drain did before it failed is in the ledger."""
    spark.tell(DrainFailure("a range failed", transient=True).to_fields(), exit_code=1)
    with pytest.raises(AirflowException):
        task.execute(context())

    lineage = DefaultExtractor(task).extract_on_failure(None)

    written = json.loads(Serde.to_json(event_of(lineage, RunState.FAIL)))
    assert find_faults(written) == []
    assert datasets_of(written) == {"inputs": {}, "outputs": {}}


def event_of(lineage, state):
    return RunEvent(
        eventTime=datetime.now(UTC).isoformat(),
        eventType=state,
        run=Run(runId=str(uuid.uuid4())),
        job=Job(namespace="default", name="drain"),
        inputs=lineage.inputs,
        outputs=lineage.outputs,
    )


def test_an_event_that_breaks_the_specification_is_found():
    assert find_faults({"eventType": "DONE", "run": {"runId": "x"}})


@pytest.mark.stack
@pytest.mark.airflow
def test_a_run_of_an_ingestion_dag_sends_events_that_keep_to_the_specification(settings, unique, airflow_env, tmp_path):
    """In a process of Airflow's own, with the provider's listener and its file transport."""
    here = settings.model_copy(update={"sources_folder": tmp_path})
    write_settings(tmp_path / "settings.toml", here)
    folder, events = tmp_path / "dags", tmp_path / "events"
    (folder / "graphs").mkdir(parents=True)
    shutil.copy(REPOSITORY / "dags" / "pipestream_graphs.py", folder)
    graph_file = folder / "graphs" / "graph.yaml"
    graph_file.write_text(GRAPH.replace("NAME", unique))
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "in" / f"{name}.txt").write_text(name)
    Pipeline(here, graph_file).create_topics()

    done = subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "test", f"pipestream_ingest_{unique}"],
        env={
            **airflow_env,
            "PIPESTREAM_CONFIG": str(tmp_path / "settings.toml"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
                {"type": "file", "log_file_path": str(events), "append": True}
            ),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6_000:]
    sent = [json.loads(line) for line in events.read_text().splitlines()]
    assert [fault for event in sent for fault in find_faults(event)] == []
    (complete,) = (each for each in sent if each["eventType"] == "COMPLETE" and each["job"]["name"].endswith(".ingest"))
    kafka = f"kafka://{here.kafka_bootstrap.split(',')[0]}"
    counts = datasets_of(complete)
    assert counts["inputs"] == {f"file {tmp_path / 'in'}": 3}
    assert counts["outputs"][f"{kafka} intake.{unique}"] == 3
    assert [count for place, count in counts["outputs"].items() if not place.startswith("kafka")] == [3]
