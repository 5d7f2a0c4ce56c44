"""The process of a sidecar without servers: its worker only pretends to drain."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pipestream.gen.ai.pipestream.engine.sidecar.v1 import management_service_pb2 as wire
from pipestream.graph.load import load_graph
from pipestream.rpc.server import run_loop
from pipestream.settings import Settings
from pipestream.sidecar import serve
from pipestream.sidecar.management import ManagementService
from pipestream.stream.shares import SlotKey
from pipestream.stream.slot_thread import SlotState, SlotStatus
from pipestream.stream.wanted import StreamSpec
from pipestream.telemetry.health import Pulse

GRAPH = """
graph: g
cluster: main
datasources:
  - {id: files, account: acme, entry: first}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
"""


class PretendWorker:
    """Works until it is asked to stop."""

    name = "one"
    max_leases = 1
    last_error = ""
    pulse = Pulse(60.0)
    rounds = 0

    def __init__(self) -> None:
        self.has_ended = threading.Event()

    def run(self, stop):
        self.rounds = 1
        stop.wait()
        self.has_ended.set()

    def statuses(self):
        return []


class EndingWorker:
    """Its last slot ends when its settings have changed."""

    def __init__(self, status):
        self._statuses = [status]

    def statuses(self):
        return self._statuses

    def restart(self, should_restart):
        self._statuses = [each for each in self._statuses if not should_restart(each.spec)]


class Sizes(dict):
    def chunk_records(self, cluster_id):
        return self.get(cluster_id, 500)

    def set_chunk_records(self, cluster_id, records):
        self[cluster_id] = records


@pytest.mark.timeout(60)
def test_a_sidecar_that_cannot_say_that_it_is_ready_ends_with_its_worker():
    def break_off(_ready):
        raise BrokenPipeError("nobody reads")

    worker = PretendWorker()
    options = serve.SidecarOptions("127.0.0.1:0")

    with pytest.raises(BrokenPipeError):
        run_loop(serve._serve(Settings(), options, worker, ManagementService(worker, Sizes()), break_off))

    assert worker.has_ended.is_set()


def test_settings_are_applied_although_the_last_slot_of_the_cluster_ends_meanwhile(tmp_path):
    file = tmp_path / "g.yaml"
    file.write_text(GRAPH)
    graph = load_graph(file)
    spec = StreamSpec("intake.files", 1, "abc", graph)
    status = SlotStatus(SlotKey("intake.files@g", 0), spec, SlotState.ACTIVE, 0, "", {}, 0)
    service = ManagementService(EndingWorker(status), Sizes())
    request = wire.SetConsumerConfigRequest(cluster_id="main", max_poll_records=7)

    answer = asyncio.run(service.SetConsumerConfig(request, None))

    assert answer.success
    assert (answer.applied_config.cluster_id, answer.applied_config.max_poll_records) == ("main", 7)
