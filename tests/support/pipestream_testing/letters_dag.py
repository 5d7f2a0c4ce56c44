"""A graph whose live DAG runs the product's own servers, and what a test asks about it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from typing import Any

import grpc
import psutil

from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.kafka.broker import Broker
from pipestream.ledger.check import Fault
from pipestream.live.watch import look_at
from pipestream.views.audit import audit_graph
from pipestream_testing.airflow_api import wait_for
from pipestream_testing.books import Books
from pipestream_testing.live_dag import runs_of
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.sidecars import apply_streaming

DAG = "pipestream_live_letters"
SERVERS = ("engine", "repository", "sidecar")

# Of a cluster of its own, so that its documents end in a topic of their own.
LETTERS = """
graph: letters
cluster: post
live: {engine: run, repository: run, sidecar: run}
datasources:
  - {id: letters, account: acme, entry: open}
nodes:
  - {id: open, module: "python:pipestream_testing.steps:pass_on"}
  - {id: file, module: "python:pipestream_testing.steps:pass_on"}
edges:
  - {from: open, to: file}
"""


class Letters:
    """The graph on the stack of another one."""

    def __init__(self, books: Books) -> None:
        self._airflow = books.airflow
        self._settings = books.settings
        self._pipeline = Pipeline(books.settings, books.pipeline.graph_file.with_name("letters.yaml"))

    def start(self) -> None:
        """Apply the graph with its topics in streaming mode, and wait until its servers are healthy."""
        apply_streaming(self._pipeline)
        self._airflow.unpause(DAG)
        settings = self._settings
        urls = (settings.live_engine_url, settings.live_repository_url, settings.live_sidecar_url)
        wait_for(lambda: all(look_at(url).is_healthy for url in urls), "the servers are not healthy")

    def hand_over(self, doc_id: str) -> None:
        request = IntakeHandoffRequest(datasource_id="letters")
        request.stream.document.doc_id = doc_id
        with grpc.insecure_channel(self._settings.live_engine_address) as channel:
            answer = EngineV1ServiceStub(channel).IntakeHandoff(request, timeout=120, wait_for_ready=True)
        assert answer.accepted, answer.message

    def upload(self, doc_id: str) -> None:
        url = f"{self._settings.live_repository_url}/uploads/letters"
        headers = {"X-Document-Id": doc_id, "Content-Type": "text/plain"}
        request = urllib.request.Request(url, b"Dear all", headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert answer.status == 201
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from None

    def ended(self) -> Counter[str]:
        """Return which documents have reached the happy end, and how often."""
        return Counter(found.doc_id for found in self._pipeline.read("pipestream.post.happy-end"))

    def pause(self) -> str:
        """Pause the DAG, and return its last run when it has ended."""
        self._airflow.pause(DAG)
        wait_for(lambda: "running" not in runs_of(self._airflow, DAG).values(), "the run has not ended")
        return list(runs_of(self._airflow, DAG))[-1]

    def ended_by(self, run_id: str, task: str) -> Any:
        """Return why a task has given up its server."""
        return self._airflow.returned(DAG, run_id, task)["ended_by"]

    def processes(self) -> list[list[str]]:
        """Return the commands of servers of the graph that still run; each has the address of its telemetry."""
        settings = self._settings
        urls = (settings.live_engine_url, settings.live_repository_url, settings.live_sidecar_url)
        ports = tuple(url.rpartition(":")[2] for url in urls)
        found = []
        for each in psutil.process_iter():
            with suppress(psutil.Error):
                command = each.cmdline()
                if command[-1:] and command[-1].endswith(ports) and "pipestream.cli.main" in command:
                    found.append(command)
        return found

    def ledger_faults(self) -> list[Fault]:
        """Return where the ledger has a gap or an overlap, or does not go up to the end of a topic."""
        audits = audit_graph(Broker(self._settings), self._pipeline.ledger, self._pipeline.graph)
        return [fault for audit in audits for fault in audit.faults]
