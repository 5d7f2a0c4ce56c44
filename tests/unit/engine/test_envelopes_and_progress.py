"""Documents as messages: ids and ways over hops, and what a real HTTP server is told about them."""

from __future__ import annotations

import threading
from base64 import b64encode
from contextlib import closing

import pytest

from pipestream.engine.envelopes import envelope_place
from pipestream.engine.follow import follow
from pipestream.engine.graph_conditions import compile_conditions
from pipestream.engine.process import Outcome, Services, process_node
from pipestream.engine.progress import GatewayProgress, percentage
from pipestream.errors import ModuleFailed
from pipestream.graph.model import Edge, Graph, Node, NodeType, Transport
from pipestream.modules.module import EnvelopePlace
from pipestream.settings import Settings
from pipestream.wire import PipeStream
from pipestream_testing.gateway import run_gateway

SETTINGS = Settings(retry_initial_ms=0, retry_max_ms=0)
HAPPY_END = Node("happy-end", "main", node_type=NodeType.SINK)
NODES = tuple(Node(name, "main", module="unix:/x", protocol="envelope") for name in "abc")
EDGES = tuple(Edge(f"{a}{b}", a, b, transport=Transport.GRPC) for a, b in ("ab", "bc"))


class ScriptedModule:
    def __init__(self, script):
        self.script, self.contexts = script, []

    def process(self, document, context):
        self.contexts.append(context)
        return self.script(document, context)

    def close(self):
        """It holds nothing."""


def services_of(graph: Graph, module: ScriptedModule, progress: GatewayProgress | None = None) -> Services:
    conditions = compile_conditions(graph, "cel-expr")
    return Services(conditions, lambda node: module, None, "cel-expr", 30.0, "hash", progress=progress)


def stream_at(node_id: str) -> PipeStream:
    stream = PipeStream(stream_id="s1", current_node_id=node_id, cluster_id="main")
    stream.document.doc_id = "d"
    return stream


def chain(**rest) -> Graph:
    return Graph("g", "main", (*NODES, HAPPY_END), EDGES, **rest)


def passing(document, context):
    return [document]


@pytest.fixture
def gateway():
    with run_gateway() as running:
        yield running


def test_the_module_learns_its_place_on_the_way():
    module = ScriptedModule(passing)

    follow(stream_at("a"), chain(), services_of(chain(), module), SETTINGS)

    assert [context.envelope for context in module.contexts] == [
        EnvelopePlace("s1", "", ("a", "b", "c"), current) for current in range(3)
    ]


def test_where_the_way_branches_the_actors_behind_it_are_not_known():
    graph = Graph("g", "main", (*NODES, HAPPY_END), (EDGES[0], Edge("ac", "a", "c")))

    assert envelope_place(stream_at("a"), graph).actors == ("a",)
    assert envelope_place(stream_at("b"), graph).actors == ("b",)


def test_documents_of_a_fan_out_are_named_after_their_parent():
    module = ScriptedModule(lambda document, context: [document] * (3 if context.node_id == "a" else 2))

    follow(stream_at("a"), chain(), services_of(chain(), module), SETTINGS)

    at_c = [(each.envelope.id, each.envelope.parent_id) for each in module.contexts if each.node_id == "c"]
    assert sorted(at_c) == [
        ("s1", ""),
        ("s1-1", "s1"),
        ("s1-1", "s1"),
        ("s1-1-1", "s1-1"),
        ("s1-2", "s1"),
        ("s1-2-1", "s1-2"),
    ]


def test_branches_of_one_document_do_not_share_an_id():
    edges = (Edge("ab", "a", "b", transport=Transport.GRPC), Edge("ac", "a", "c", transport=Transport.GRPC))
    graph = Graph("g", "main", (*NODES, HAPPY_END), edges)
    module = ScriptedModule(lambda document, context: [document] * (2 if context.node_id == "a" else 1))

    follow(stream_at("a"), graph, services_of(graph, module), SETTINGS)

    ids = [each.envelope.id for each in module.contexts]
    assert len(set(ids[1:])) == len(ids[1:]) == 4


def test_streams_of_other_graphs_are_not_changed():
    nodes = tuple(Node(name, "main", module="unix:/x") for name in "ab")
    graph = Graph("g", "main", (*nodes, HAPPY_END), EDGES[:1])
    module = ScriptedModule(lambda document, context: [document, document])

    emissions = process_node(stream_at("a"), graph, services_of(graph, module))

    assert all(not emission.stream.metadata.context_params for emission in emissions)
    assert module.contexts[0].envelope is None


def test_the_error_end_learns_why_a_document_failed():
    end = Node("failed", "main", node_type=NodeType.SINK, module="unix:/x", protocol="envelope")
    graph = Graph("g", "main", (*NODES, HAPPY_END, end), EDGES, error_end="failed")

    def script(document, context):
        if context.node_id == "b":
            raise ModuleFailed("broken on purpose")
        return [document]

    module = ScriptedModule(script)
    services = services_of(graph, module)
    (failed,) = follow(stream_at("a"), graph, services, SETTINGS)
    assert failed.outcome is Outcome.ERROR_END
    failed.stream.current_node_id = "failed"
    process_node(failed.stream, graph, services)

    assert [context.stream_error is not None for context in module.contexts] == [False, False, True]
    assert module.contexts[-1].stream_error.error_message == "broken on purpose"


@pytest.mark.parametrize(
    ("current", "status", "expected"),
    [
        (0, "received", 3.33),
        (0, "processing", 16.67),
        (0, "completed", 33.33),
        (1, "received", 36.67),
        (2, "completed", 100),
    ],
)
def test_the_percentage_grows_with_the_way(current, status, expected):
    assert percentage(EnvelopePlace("e", "", ("a", "b", "c"), current), status) == expected


def test_a_gateway_is_told_about_three_hops_and_the_end(gateway):
    with closing(GatewayProgress(gateway.url)) as progress:
        follow(stream_at("a"), chain(), services_of(chain(), ScriptedModule(passing), progress), SETTINGS)

    assert [path for path, _ in gateway.told] == ["/envelopes/s1/progress"] * 9 + ["/envelopes/s1/final"]
    assert [(body["current_actor"], body["status"]) for _, body in gateway.told[:-1]] == [
        (actor, status) for actor in "abc" for status in ("received", "processing", "completed")
    ]
    assert [body["progress_percent"] for _, body in gateway.told[:-1]] == [
        3.33, 16.67, 33.33, 36.67, 50, 66.67, 70, 83.33, 100,
    ]  # fmt: skip
    assert gateway.told[-1][1] == {"id": "s1", "status": "succeeded"}


def test_a_failure_and_an_end_that_is_processed_are_final_too(gateway):
    end = Node("stored", "main", node_type=NodeType.SINK, module="unix:/x")
    graph = Graph("g", "main", (*NODES, end), EDGES, happy_end="stored")
    module = ScriptedModule(lambda document, context: [document])
    broken = ScriptedModule(lambda document, context: (_ for _ in ()).throw(ModuleFailed("broken on purpose")))
    with closing(GatewayProgress(gateway.url)) as progress:
        follow(stream_at("stored"), graph, services_of(graph, module, progress), SETTINGS)
        follow(stream_at("a"), graph, services_of(graph, broken, progress), SETTINGS)

    finals = [body for path, body in gateway.told if path.endswith("/final")]
    assert finals == [
        {"id": "s1", "status": "succeeded"},
        {"id": "s1", "status": "failed", "error": "broken on purpose"},
    ]


def test_a_gateway_that_refuses_or_is_away_fails_no_document(gateway, caplog):
    gateway.status = 500
    for url in (gateway.url, "http://127.0.0.1:9"):
        with closing(GatewayProgress(url)) as progress:
            emissions = follow(
                stream_at("a"), chain(), services_of(chain(), ScriptedModule(passing), progress), SETTINGS
            )
        assert [emission.outcome for emission in emissions] == [Outcome.HAPPY_END]

    assert "cannot be sent" in caplog.text


def test_a_gateway_that_hangs_delays_no_document(monkeypatch):
    monkeypatch.setattr("pipestream.engine.progress._WAITING", 5)
    monkeypatch.setattr("pipestream.engine.progress._CLOSE_S", 0.1)
    hanging = threading.Event()
    progress = GatewayProgress("http://gateway", send=lambda url, body: hanging.wait(60) and None)
    services = services_of(chain(), ScriptedModule(passing), progress)

    for _ in range(20):
        follow(stream_at("a"), chain(), services, SETTINGS)
    progress.close()
    hanging.set()

    assert progress._dropped >= 20 * 10 - 5 - 1


def test_ids_are_escaped_in_the_address(gateway):
    with closing(GatewayProgress(gateway.url + "/")) as progress:
        progress.final("a/b?c", succeeded=True)

    assert gateway.told[0][0] == "/envelopes/a%2Fb%3Fc/final"


def test_a_login_in_the_address_of_a_gateway_is_sent_as_a_header(gateway):
    with closing(GatewayProgress(gateway.url.replace("://", "://user:p%40ss@"))) as progress:
        progress.final("s1", succeeded=True)

    assert gateway.logins == [f"Basic {b64encode(b'user:p@ss').decode()}"]
