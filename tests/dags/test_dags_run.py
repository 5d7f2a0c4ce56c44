"""The generated DAGs, run by Airflow's own command line on real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.drain.check import find_lag
from pipestream.graph.load import load_graph
from pipestream.graph.order import drain_order
from pipestream.leases import open_lease_store
from pipestream.ledger import Ledger
from pipestream.samples.generate import write_sample_documents
from pipestream_airflow.ingest_operator import IngestOperator
from pipestream_testing.notices import NOTICES_FILE
from pipestream_testing.settings_file import write_settings

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = 60

pytestmark = [pytest.mark.stack, pytest.mark.airflow, pytest.mark.spark]


class Installation:
    """The sample graph under names of its own, applied, with Airflow aimed at it."""

    def __init__(self, settings, graph_file: Path, environment: dict[str, str]) -> None:
        self.settings = settings
        self.graph_file = graph_file
        self.graph = load_graph(graph_file)
        self.ledger = Ledger(settings)
        self._environment = environment

    def run_dag(self, dag_id: str) -> str:
        """Run a DAG to its end and return what Airflow said."""
        return run(["-m", "airflow", "dags", "test", dag_id], self._environment)

    def ingest(self) -> dict[str, object]:
        """Run the ingestion DAG's task in this process, which reads the settings the DAG would read."""
        (datasource,) = self.graph.datasources
        task = IngestOperator(task_id="ingest", datasource_id=datasource.datasource_id, graph_file=str(self.graph_file))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PIPESTREAM_CONFIG", self._environment["PIPESTREAM_CONFIG"])
            return task.execute({})

    @property
    def topics(self) -> list[str]:
        return sorted({step.topic for step in drain_order(self.graph, 1)})

    def notices(self) -> list[str]:
        """Return the subjects of what the notifier was told."""
        texts = Path(self._environment[NOTICES_FILE]).read_text().split("\n\n")
        return [text.splitlines()[1] for text in texts if text]

    def waiting(self) -> dict[str, int]:
        return {topic: find_lag(self.settings, self.graph, topic) for topic in self.topics}


def run(arguments: list[str], environment: dict[str, str], timeout_s: float = 800.0) -> str:
    """Run a Python program to its end; when it takes too long, end it with its children and show its log."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            pytest.fail(f"not done in {timeout_s:.0f} s:\n{said[-8_000:]}")
    assert process.returncode == 0, said[-8_000:]
    return said


@pytest.fixture
def installation(settings, unique, airflow_env, dags_folder, tmp_path, spark_connect) -> Installation:
    assert spark_connect.pid, "drains would be submitted, one after the other"
    settings = settings.model_copy(update={"sources_folder": tmp_path})
    write_settings(tmp_path / "settings.toml", settings)
    write_sample_documents(tmp_path / "samples", count=DOCUMENTS)
    sample = (REPOSITORY / "dags" / "graphs" / "sample.yaml").read_text()
    for old, new in {
        "graph: sample": f"graph: {unique}",
        "cluster: main": f"cluster: {unique}",
        "sample-files": unique,
    }.items():
        assert old in sample
        sample = sample.replace(old, new)
    graph_file = dags_folder / "graphs" / "sample.yaml"
    graph_file.write_text(sample)
    environment = {
        **airflow_env,
        "PIPESTREAM_CONFIG": str(tmp_path / "settings.toml"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "PIPESTREAM_DEAD_LETTER_NOTIFIER": "pipestream_testing.notices:to_file",
        NOTICES_FILE: str(tmp_path / "notices"),
    }
    made = Installation(settings, graph_file, environment)
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:
        apply_graph(made.graph, settings, leases, versions, applied_by="test")
    return made


def test_ingestion_publishes_what_is_new_and_says_how_much(installation, unique):
    first = installation.ingest()
    second = installation.ingest()

    assert first == {
        "datasource": unique,
        "new": DOCUMENTS,
        "changed": 0,
        "unchanged": 0,
        "published": DOCUMENTS,
        "failed": 0,
        "left_out": {},
        "stopped": "",
    }
    assert (second["new"], second["changed"], second["published"]) == (0, 0, 0)
    # A file that was written just before the first run is read by the second, too.
    assert second["unchanged"] + sum(second["left_out"].values()) == DOCUMENTS
    # And in each of the two partitions the marker of the transaction that published them.
    assert installation.waiting()[f"intake.{unique}"] == DOCUMENTS + 2


@pytest.mark.timeout(1800)
def test_a_run_carries_every_document_from_the_folder_to_its_end(installation, unique):
    installation.ingest()

    said = installation.run_dag(f"pipestream_{unique}")

    assert installation.waiting() == dict.fromkeys(installation.topics, 0), said[-8_000:]
    assert "this drain runs on the Spark Connect server" in said
    assert "Spark-Submit cmd" not in said
    entries = installation.ledger.entries(lane=unique)
    taken_in = sum(entry.tally.records for entry in entries if entry.range.topic == f"intake.{unique}")
    happy = sum(entry.tally.documents_out.get("happy-end", 0) for entry in entries)
    dead = sum(entry.tally.dead_letters for entry in entries)
    assert taken_in == DOCUMENTS
    assert happy + dead == DOCUMENTS
    assert dead > 0, "the samples have broken documents among them"
    assert {entry.run_id.split("/")[0] for entry in entries} == {f"pipestream_{unique}"}
    assert installation.notices() == [f"{unique}: {dead} dead letters, with a new error"]


POOL_SIZES = """
from airflow.jobs.job import Job
from airflow.models.pool import Pool

Job()
print("slots:", Pool.get_pool("pipestream_drains").slots)
"""


def test_the_pool_of_the_drains_has_the_size_of_the_setting_once_airflow_has_started(airflow_env):
    said = run(["-c", POOL_SIZES], {**airflow_env, "PIPESTREAM_MAX_LEASES": "5"})

    assert "slots: 5" in said
