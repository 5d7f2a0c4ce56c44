"""The graph of the end-to-end tests on its stack, and what they ask about it."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

import psutil

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.drain.backfill import Backfill
from pipestream.drain.request import DrainRequest
from pipestream.kafka.broker import Broker
from pipestream.leases import open_lease_store
from pipestream.leases.keys import slot_key
from pipestream.leases.store import Assignment
from pipestream.ledger import Entry
from pipestream.ledger.check import Fault
from pipestream.local import Stack
from pipestream.views.audit import audit_graph
from pipestream_testing.airflow_api import AirflowApi
from pipestream_testing.airflow_stack import graph_file
from pipestream_testing.gate import Gate
from pipestream_testing.pipeline import Pipeline

LEDGER = "s3://pipestream/ledger"
DAG, INGEST_DAG, UPKEEP_DAG = "pipestream_books", "pipestream_ingest_books", "pipestream_upkeep"
APPROVAL_DAG = f"{DAG}.approve"
INTAKE, INDEX, HAPPY_END, DEAD = "intake.books", "pipestream.main.index", "pipestream.main.happy-end", "dlq.main.index"
FILES = [*(f"good-{number}" for number in range(5)), "bad-0"]
"""What the ingestion DAG finds; a document called bad… fails at the second node."""
EARLIER = [*(f"old-{number}" for number in range(3)), "bad-1"]
"""What came in during the data interval that is backfilled."""

GRAPH = """
graph: books
cluster: main
schedule: "SCHEDULE"
datasources:
  - {id: books, account: acme, entry: read, partitions: 2, connector: {kind: folder, path: books}}
nodes:
  - {id: read, module: "python:pipestream_testing.gate:wait_at_gate", config: {gate: "GATE"}, timeout_s: 3600}
  - {id: index, module: "python:pipestream_testing.steps:fail_on_bad", partitions: 2}
edges:
  - {from: read, to: index}
"""


class Books:
    """The graph on its stack, and what a test asks about it."""

    def __init__(self, stack: Stack, folder: Path, interval: tuple[datetime, datetime]) -> None:
        self.airflow = AirflowApi(stack)
        self._airflow_pid = stack.server("airflow").pid
        self.gate = Gate(folder)
        self.interval = interval
        self.pipeline = Pipeline(stack.settings(ledger_uri=LEDGER), graph_file(folder, "books"))
        self.settings = self.pipeline.settings
        self.ledger = self.pipeline.ledger
        with closing(open_lease_store(self.settings)) as leases, closing(GraphVersions(self.settings)) as versions:
            apply_graph(self.pipeline.graph, self.settings, leases, versions, applied_by="test")

    @property
    def backfill_lane(self) -> str:
        since, until = self.interval
        return f"books@time-{since:%Y%m%dt%H%M%S}-{until:%Y%m%dt%H%M%S}"

    def lease_name(self, *, backfill: bool) -> str:
        """Return the name of the lease of the intake topic."""
        wanted = Backfill(self.backfill_lane.partition("@")[2], *self.interval) if backfill else None
        return DrainRequest(self.pipeline.graph, INTAKE, "any", 1, backfill=wanted).lease_name

    def lease(self, name: str) -> Assignment | None:
        with closing(open_lease_store(self.settings)) as leases:
            return next((each for each in leases.assignments(name) if each.holder), None)

    def consul_session(self, name: str) -> str | None:
        """Ask Consul itself, not our client of it, which session has the lock of a lease."""
        url = f"http://{self.settings.consul_address}/v1/kv/{slot_key(name, 0)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            (entry,) = json.load(answer)
        return entry.get("Session")

    def post_backfill(self) -> int:
        since, _ = self.interval
        return self.airflow.post_backfill(DAG, since, since, reprocess_behavior="completed")

    def task_process(self, run_id: str, task_id: str) -> psutil.Process:
        """Return the process of a task of Airflow that runs now: the one that started its spark-submit."""
        wanted = f"--run-id={DAG}/{run_id}/{task_id}"
        for each in psutil.Process(self._airflow_pid).children(recursive=True):
            # Processes of Airflow come and go meanwhile.
            with suppress(psutil.NoSuchProcess):
                parent = each.parent()
                if parent and wanted in each.cmdline() and wanted not in parent.cmdline():
                    return parent
        raise AssertionError(f"no process of {run_id} {task_id} runs")

    def entries(self) -> list[Entry]:
        return self.ledger.entries()

    def ledger_faults(self) -> list[Fault]:
        """Return where the live ledger has a gap, an overlap, or does not go up to the end of a topic."""
        audits = audit_graph(Broker(self.settings), self.ledger, self.pipeline.graph)
        assert {audit.topic for audit in audits} == {INTAKE, INDEX}
        return [fault for audit in audits for fault in audit.faults]

    def ended(self) -> tuple[Counter[str], Counter[str]]:
        """Return the titles of the documents at the happy end, and of those that became dead letters."""
        return _titles(self.pipeline, HAPPY_END), _titles(self.pipeline, DEAD)


def _titles(pipeline: Pipeline, topic: str) -> Counter[str]:
    """Count documents by their name: ids of files have a hash behind it."""
    known = (*FILES, *EARLIER, "late-0")
    return Counter(
        next(name for name in known if doc_id.startswith(name)) for doc_id in pipeline.doc_ids(topic).elements()
    )
