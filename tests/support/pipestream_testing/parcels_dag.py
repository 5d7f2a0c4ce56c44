"""A graph whose runs start when documents wait, a DAG for each of its complete hours, and what a test asks of them."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.leases import open_lease_store
from pipestream_testing.airflow_api import wait_for
from pipestream_testing.books import Books
from pipestream_testing.pipeline import Pipeline

DAG, HOURLY_DAG = "pipestream_parcels", "hourly_parcels"
INTAKE, HAPPY_END = "intake.parcels", "pipestream.depot.happy-end"
ENOUGH = 3
"""So many documents that wait start a run."""

# Of a cluster of its own, so that its documents end in a topic of their own. Only the number starts a run: documents
# are sent with times of earlier hours.
PARCELS = f"""
graph: parcels
cluster: depot
schedule: on_arrival
arrival: {{records: {ENOUGH}, oldest_seconds: 604800}}
datasources:
  - {{id: parcels, account: acme, entry: weigh, complete_hours: true}}
nodes:
  - {{id: weigh, module: "python:pipestream_testing.steps:pass_on"}}
  - {{id: ship, module: "python:pipestream_testing.steps:pass_on"}}
edges:
  - {{from: weigh, to: ship}}
"""
HOURLY = """
from datetime import UTC, datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, PartitionedAssetTimetable

from pipestream_airflow import complete_hours_asset

hours = PartitionedAssetTimetable(assets=complete_hours_asset("parcels", "parcels"))
with DAG("hourly_parcels", schedule=hours, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):
    EmptyOperator(task_id="use_the_hour")
"""


class Parcels:
    """The graph on the stack of another one."""

    def __init__(self, books: Books) -> None:
        self._airflow = books.airflow
        self._pipeline = Pipeline(books.settings, books.pipeline.graph_file.with_name("parcels.yaml"))
        grace = timedelta(seconds=books.settings.hour_grace_s)
        self.hour = (datetime.now(UTC) - grace).replace(minute=0, second=0, microsecond=0)
        """The end of the newest hour that can be complete. In an hour's first minute that is the one before."""

    def start(self) -> None:
        """Apply the graph, and let Airflow watch its topics."""
        settings = self._pipeline.settings
        with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:
            apply_graph(self._pipeline.graph, settings, leases, versions, applied_by="test")
        for dag_id in (HOURLY_DAG, DAG):
            self._airflow.unpause(dag_id)
        # Airflow watches the assets of DAGs that were not paused when it last read their file.
        self._airflow.read_file_again(DAG)

    def send(self, *doc_ids: str, hours_ago: float = 0) -> None:
        at = self.hour - timedelta(hours=hours_ago) if hours_ago else None
        self._pipeline.send(INTAKE, doc_ids, timestamp=at)

    def pause(self) -> None:
        self._airflow.pause(DAG)

    def unpause(self) -> None:
        self._airflow.unpause(DAG)

    def wait_for_run(self, number: int) -> str:
        """Wait until Airflow has started a run by itself for the so manieth time, and it has ended well."""
        runs = wait_for(lambda: len(found := self.runs()) >= number and found, f"no run {number} of {DAG}")
        run_id = str(runs[number - 1]["dag_run_id"])
        self._airflow.wait_for_run(DAG, run_id)
        return run_id

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs, oldest first."""
        return self._runs_of(DAG)

    def hourly_runs(self) -> list[str]:
        """Return the hours for which the DAG behind the graph has run."""
        return [run["partition_key"] for run in self._runs_of(HOURLY_DAG)]

    def told_hours(self, run_id: str) -> list[str]:
        """Return the hours that a run has found complete."""
        return list(self._airflow.returned(DAG, run_id, "complete_hours")["parcels"])

    def rings(self) -> int:
        """Return how often the trigger has asked for a run."""
        (asset,) = self._airflow.call("GET", "/api/v2/assets?name_pattern=waiting.parcels")["assets"]
        return int(self._airflow.call("GET", f"/api/v2/assets/events?asset_id={asset['id']}")["total_entries"])

    def ended(self) -> Counter[str]:
        return self._pipeline.doc_ids(HAPPY_END)

    def _runs_of(self, dag_id: str) -> list[dict[str, Any]]:
        found = self._airflow.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=id")
        return list(found["dag_runs"])
