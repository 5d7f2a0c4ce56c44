from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from pipestream.engine_server.handoff import Answered, Handoffs, _Begun
from pipestream.engine_server.served import ServedGraph
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, IntakeHandoffResponse
from pipestream.graph.model import Graph, Node, NodeType
from pipestream.graph.proto import built
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.telemetry.meter import GatheringMeter, NoMeter


class ByOneVersion(Handoffs):
    """Takes every document in by one version of a graph, each by itself, and notes whether that is open then."""

    def __init__(self, served, closed):
        self._choice = SimpleNamespace(doors=[SimpleNamespace(served=served, meter=GatheringMeter(NoMeter()))])
        self._closed = closed
        self.was_open = []

    def _begin(self, request, caller):
        return _Begun(request, b"", caller, None, self._choice)

    def _is_quick(self, *_):
        return False

    async def _finish(self, begun):
        self.was_open.append(not self._closed)
        return Answered(IntakeHandoffResponse(accepted=True))


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path.as_uri(), Settings()) as opened:
        yield opened


def test_a_version_that_is_replaced_while_a_batch_is_looked_at_stays_open_for_all_of_the_batch(store):
    graph = Graph("g", "main", (Node("only", "main", node_type=NodeType.CONNECTOR),))
    served, closed = ServedGraph(SimpleNamespace(version=1, built=built(graph)), Settings(), "", store), []
    served._stack.callback(closed.append, True)
    handoffs = ByOneVersion(served, closed)

    async def replace():
        served.replaced()

    async def run():
        replacing = asyncio.create_task(replace())
        answers = await handoffs.hand_off_many([(IntakeHandoffRequest(), None)] * 20)
        await replacing
        return answers

    assert len(asyncio.run(run())) == 20
    assert handoffs.was_open == [True] * 20
    assert closed == [True], "it is closed when the last one has left"
