"""Every rule of a graph file: what is refused, where, and in which words."""

from __future__ import annotations

import textwrap

import pytest

from pipestream.graph.load import check_graph_text

# A graph that obeys all rules. Each case replaces or appends a little of it.
HEAD = """\
graph: sample
cluster: main
"""
SOURCES = """\
datasources:
  - id: files
    account: demo
    entry: a
"""
NODES = """\
nodes:
  - id: a
    module: python:json:loads
  - id: b
    module: python:json:loads
  - id: done
    type: sink
"""
EDGES = """\
edges:
  - from: a
    to: b
  - from: b
    to: done
"""


def problems_of(text):
    return check_graph_text(text.encode(), "graph.yaml").problems


def test_the_graph_that_the_cases_start_from_is_valid():
    check = check_graph_text((HEAD + SOURCES + NODES + EDGES).encode(), "graph.yaml")

    assert check.problems == ()
    assert check.warnings == ()
    assert check.require().graph_id == "sample"


def graph(*, head=HEAD, sources=SOURCES, nodes=NODES, edges=EDGES):
    return "".join(textwrap.dedent(part) for part in (head, sources, nodes, edges))


CASES = [
    # shape
    ("unknown key", graph(head=HEAD + "schedul: '@daily'\n"), "schedul", 3, "unknown key 'schedul'"),
    ("unknown key of a node", graph(nodes=NODES + "    modul: x\n"), "nodes[2].modul", 14, "unknown key 'modul'"),
    ("key twice", graph(head=HEAD + "cluster: x\n"), "cluster", 3, "is here twice"),
    ("key that is not text", graph(head=HEAD + "1: x\n"), "1", 3, "key 1 must be text"),
    ("no id", graph(head="cluster: main\n"), "graph", None, "graph is missing"),
    ("no cluster", graph(head="graph: sample\n"), "cluster", None, "cluster is missing"),
    ("no nodes", HEAD, "nodes", None, "nodes is missing"),
    ("nodes of the wrong type", HEAD + "nodes: {a: 1}\n", "nodes", 3, "expected a list, not a mapping"),
    ("node of the wrong type", HEAD + "nodes:\n  - just-a-name\n", "nodes[0]", 4, "expected a mapping"),
    ("text that is a number", graph(head=HEAD + "name: 12\n"), "name", 3, "expected text, not 12"),
    ("text that is nothing", graph(head=HEAD + "description:\n"), "description", 3, "expected text, not nothing"),
    ("empty text", graph(head="graph: ''\ncluster: main\n"), "graph", 1, "must not be empty"),
    ("number that is text", graph(nodes=NODES + "    slots: many\n"), "nodes[2].slots", 14, "expected a whole number"),
    ("number that is a flag", graph(nodes=NODES + "    slots: true\n"), "nodes[2].slots", 14, "not true"),
    (
        "flag that is text",
        graph(sources=SOURCES + "    paused: yes\n"),
        "datasources[0].paused",
        7,
        "expected true or false, not 'yes'",
    ),
    (
        "negative partitions",
        graph(nodes=NODES + "    partitions: -1\n"),
        "nodes[2].partitions",
        14,
        "between 1 and 10000, not -1",
    ),
    (
        "no partitions at all",
        graph(sources=SOURCES + "    partitions: 0\n"),
        "datasources[0].partitions",
        7,
        "between 1",
    ),
    (
        "negative retention",
        graph(sources=SOURCES + "    retention_hours: -2\n"),
        "datasources[0].retention_hours",
        7,
        "must be more than 0",
    ),
    ("endless timeout", graph(nodes=NODES + "    timeout_s: .inf\n"), "nodes[2].timeout_s", 14, "at most 86400"),
    (
        "timeout that is no number",
        graph(nodes=NODES + "    timeout_s: .nan\n"),
        "nodes[2].timeout_s",
        14,
        "must be more than 0",
    ),
    ("negative max_hops", graph(edges=EDGES + "    max_hops: -1\n"), "edges[1].max_hops", 19, "between 0"),
    ("no hops at all", graph(head=HEAD + "max_hops: 0\n"), "max_hops", 3, "between 1"),
    ("huge priority", graph(edges=EDGES + "    priority: 99999999999\n"), "edges[1].priority", 19, "between"),
    (
        "type of a node",
        graph(nodes=NODES + "  - {id: x, type: source}\n"),
        "nodes[3].type",
        14,
        "expected connector or processor or sink",
    ),
    (
        "transport",
        graph(edges=EDGES + "    transport: http\n"),
        "edges[1].transport",
        19,
        "expected kafka or grpc, not 'http'",
    ),
    (
        "protocol of a function",
        graph(nodes=NODES.replace("loads\n  - id: b", "loads\n    protocol: envelope\n  - id: b")),
        "nodes[0].protocol",
        10,
        "only modules behind a socket have a protocol",
    ),
    ("ordering", graph(nodes=NODES + "    ordering: random\n"), "nodes[2].ordering", 14, "expected timestamp"),
    (
        "filters that are no list",
        graph(nodes=NODES + "    filters: 'true'\n"),
        "nodes[2].filters",
        14,
        "expected a list of text",
    ),
    (
        "config that is no mapping",
        graph(nodes=NODES + "    config: [1]\n"),
        "nodes[2].config",
        14,
        "expected a mapping, not a list",
    ),
    (
        "config with a key that is not text",
        graph(nodes=NODES + "    config: {1: x}\n"),
        "nodes[2].config",
        14,
        "key 1 must be text",
    ),
    (
        "config with a key twice",
        graph(nodes=NODES + "    config: {x: 1, x: 2}\n"),
        "nodes[2].config",
        14,
        "key 'x' is here twice",
    ),
    (
        "config that is not finite",
        graph(nodes=NODES + "    config: {x: .nan}\n"),
        "nodes[2].config",
        14,
        "use a finite number",
    ),
    (
        "config that would lose digits",
        graph(nodes=NODES + "    config: {x: 9007199254740993}\n"),
        "nodes[2].config",
        14,
        "would lose digits",
    ),
    (
        "parameters that are no mapping",
        graph(nodes=NODES + "    config_params: fast\n"),
        "nodes[2].config_params",
        14,
        "expected a mapping of text to text, not 'fast'",
    ),
    (
        "a parameter that is not text",
        graph(nodes=NODES + "    config_params: {depth: 2}\n"),
        "nodes[2].config_params",
        14,
        "depth: expected text, not 2",
    ),
    (
        "a parameter whose name is not text",
        graph(nodes=NODES + "    config_params: {2: x}\n"),
        "nodes[2].config_params",
        14,
        "key 2 must be text",
    ),
    (
        "connector without a kind",
        graph(sources=SOURCES + "    connector: {path: x}\n"),
        "datasources[0].connector.kind",
        7,
        "kind is missing",
    ),
    # ids
    (
        "graph id",
        graph(head="graph: My Graph\ncluster: main\n"),
        "graph",
        1,
        "'My Graph' cannot be part of a topic name",
    ),
    ("cluster id", graph(head="graph: g\ncluster: a.b\n"), "cluster", 2, "'a.b' cannot be part of a topic name"),
    ("cluster called intake", graph(head="graph: g\ncluster: intake\n"), "cluster", 2, "cannot be called intake"),
    (
        "node id",
        graph(nodes=NODES + "  - {id: ../x, type: sink}\n"),
        "nodes[3].id",
        14,
        "cannot be part of a topic name",
    ),
    (
        "node id too long",
        graph(nodes=NODES + f"  - {{id: {'x' * 81}, type: sink}}\n"),
        "nodes[3].id",
        14,
        "cannot be part of a topic name",
    ),
    ("edge id", graph(edges=EDGES + "    id: Über\n"), "edges[1].id", 19, "cannot be part of a topic name"),
    (
        "datasource id",
        graph(sources=SOURCES.replace("files", "a/b")),
        "datasources[0].id",
        4,
        "cannot be part of a topic name",
    ),
    (
        "account",
        graph(sources=SOURCES.replace("demo", "../demo")),
        "datasources[0].account",
        5,
        "cannot be part of an object key",
    ),
    (
        "node twice",
        graph(nodes=NODES + "  - {id: b, module: 'python:json:loads'}\n"),
        "nodes[3].id",
        14,
        "node b is already defined (nodes[1], line 10)",
    ),
    (
        "datasource twice",
        graph(sources=SOURCES + "  - {id: files, account: x, entry: a}\n"),
        "datasources[1].id",
        7,
        "datasource files is already defined",
    ),
    ("edge twice", graph(edges=EDGES + "  - {from: a, to: b}\n"), "edges[2].id", 19, "edge a--b is already defined"),
    (
        "edge id twice",
        graph(edges="edges:\n  - {id: e, from: a, to: b}\n  - {id: e, from: b, to: done}\n"),
        "edges[1].id",
        16,
        "edge e is already defined",
    ),
    # edges
    ("edge to nowhere", graph(edges=EDGES.replace("to: done", "to: dnoe")), "edges[1].to", 18, "there is no node dnoe"),
    ("edge from nowhere", graph(edges=EDGES.replace("from: a", "from: c")), "edges[0].from", 15, "there is no node c"),
    ("edge without a target", graph(edges="edges:\n  - from: a\n"), "edges[0].to", 15, "to is missing"),
    (
        "edge from a sink",
        graph(edges=EDGES + "  - {from: done, to: a, max_hops: 1}\n"),
        "edges[2].from",
        19,
        "done is a sink",
    ),
    (
        "two transports",
        graph(edges=EDGES + "  - {id: second, from: a, to: b, transport: grpc}\n"),
        "edges[2].transport",
        19,
        "grpc, but a--b between the same nodes goes by kafka",
    ),
    (
        "other cluster by gRPC",
        graph(edges=EDGES + "  - {from: a, to: far, cluster: other, transport: grpc}\n"),
        "edges[2].transport",
        19,
        "always goes by Kafka",
    ),
    (
        "other cluster with a topic",
        graph(edges=EDGES + "  - {from: a, to: far, cluster: other, topic: mine}\n"),
        "edges[2].topic",
        19,
        "always goes to bridge.other.far",
    ),
    (
        "other cluster's id",
        graph(edges=EDGES + "  - {from: a, to: far, cluster: O}\n"),
        "edges[2].cluster",
        19,
        "cannot be part of a topic name",
    ),
    (
        "gRPC with a topic",
        graph(edges=EDGES + "    transport: grpc\n    topic: mine\n"),
        "edges[1].topic",
        20,
        "an edge by gRPC has no topic",
    ),
    # cycles
    (
        "a cycle",
        graph(edges=EDGES + "  - {from: b, to: a}\n"),
        "edges[0].max_hops",
        15,
        "documents can go round forever between a, b",
    ),
    ("a loop of one", graph(edges=EDGES + "  - {from: b, to: b}\n"), "edges[2].max_hops", 19, "forever between b"),
    # ends
    ("happy end that is no sink", graph(head=HEAD + "happy_end: a\n"), "happy_end", 3, "a is a processor, not a sink"),
    ("happy end that is nowhere", graph(head=HEAD + "happy_end: don\n"), "happy_end", 3, "there is no node don"),
    ("error end that is no sink", graph(head=HEAD + "error_end: b\n"), "error_end", 3, "b is a processor, not a sink"),
    (
        "error end that is nowhere",
        graph(head=HEAD + "error_end: error-end\n"),
        "error_end",
        3,
        "there is no node error-end",
    ),
    (
        "both ends the same",
        graph(head=HEAD + "error_end: done\nhappy_end: done\n"),
        "error_end",
        3,
        "done is also the happy end",
    ),
    # datasources
    (
        "no entry",
        graph(sources="datasources:\n  - {id: files, account: demo}\n"),
        "datasources[0].entry",
        4,
        "entry is missing",
    ),
    (
        "unknown entry",
        graph(sources=SOURCES.replace("entry: a", "entry: start")),
        "datasources[0].entry",
        6,
        "there is no node start",
    ),
    (
        "entry that ends at once",
        graph(sources=SOURCES.replace("entry: a", "entry: done")),
        "datasources[0].entry",
        6,
        "is a sink without a module",
    ),
    (
        "schedule",
        graph(sources=SOURCES + "    schedule: often\n    connector: {kind: x}\n"),
        "datasources[0].schedule",
        7,
        "'often' is not a schedule",
    ),
    (
        "schedule of nothing",
        graph(sources=SOURCES + "    schedule: '@daily'\n"),
        "datasources[0].schedule",
        7,
        "a schedule without a connector",
    ),
    ("schedule of the graph", graph(head=HEAD + "schedule: 61 * * * *\n"), "schedule", 3, "'61' is not a valid minute"),
    (
        "start",
        graph(sources=SOURCES + "    start_at: yesterday\n"),
        "datasources[0].start_at",
        7,
        "'yesterday' is not a place to start",
    ),
    (
        "start of a node",
        graph(nodes=NODES + "    start_at: 2026-01-01T00:00:00\n"),
        "nodes[2].start_at",
        14,
        "has no zone",
    ),
    # modules
    ("no module", graph(nodes=NODES + "  - id: x\n"), "nodes[3].module", 14, "processor x has no module"),
    (
        "module of no kind",
        graph(nodes=NODES + "    module: docker:x\n"),
        "nodes[2].module",
        14,
        "'docker:x' is not a module",
    ),
    (
        "python module without a function",
        graph(nodes=NODES + "    module: python:json\n"),
        "nodes[2].module",
        14,
        "is not a module",
    ),
    (
        "gRPC module without a port",
        graph(nodes=NODES + "    module: grpc:host\n"),
        "nodes[2].module",
        14,
        "is not a module",
    ),
    (
        "socket that is no path",
        graph(nodes=NODES + "    module: unix:x.sock\n"),
        "nodes[2].module",
        14,
        "is not a module",
    ),
    ("engine", graph(nodes=NODES + "    engine: host\n"), "nodes[2].engine", 14, "'host' is not an address"),
    ("engine's port", graph(nodes=NODES + "    engine: host:99999\n"), "nodes[2].engine", 14, "is not an address"),
    # dead letters
    (
        "pauses that shrink",
        graph(nodes=NODES + "    dead_letters: {initial_backoff_ms: 9, max_backoff_ms: 3}\n"),
        "nodes[2].dead_letters.max_backoff_ms",
        14,
        "3 is shorter than the first pause, 9",
    ),
    (
        "no attempt at all",
        graph(nodes=NODES + "    dead_letters: {max_attempts: 0}\n"),
        "nodes[2].dead_letters.max_attempts",
        14,
        "between 1",
    ),
    (
        "unknown key of dead letters",
        graph(nodes=NODES + "    dead_letters: {retries: 3}\n"),
        "nodes[2].dead_letters.retries",
        14,
        "unknown key",
    ),
    # mappings
    (
        "mapping without a type",
        graph(nodes=NODES + "    pre_mappings: [{from: x, to: y}]\n"),
        "nodes[2].pre_mappings[0].type",
        14,
        "type is missing",
    ),
    (
        "mapping without a target",
        graph(nodes=NODES + "    pre_mappings: [{type: direct, from: x}]\n"),
        "nodes[2].pre_mappings[0].to",
        14,
        "to is missing",
    ),
    (
        "mapping with no target",
        graph(nodes=NODES + "    pre_mappings: [{type: direct, from: x, to: []}]\n"),
        "nodes[2].pre_mappings[0].to",
        14,
        "to names no field",
    ),
    (
        "mapping without a source",
        graph(nodes=NODES + "    post_mappings: [{type: direct, to: x}]\n"),
        "nodes[2].post_mappings[0].from",
        14,
        "from is missing",
    ),
    (
        "transform without a rule",
        graph(nodes=NODES + "    post_mappings: [{type: transform, from: x, to: y}]\n"),
        "nodes[2].post_mappings[0].rule",
        14,
        "rule is missing",
    ),
    (
        "split without a delimiter",
        graph(nodes=NODES + "    post_mappings: [{type: split, from: x, to: y}]\n"),
        "nodes[2].post_mappings[0].delimiter",
        14,
        "delimiter is missing",
    ),
    (
        "CEL without an expression",
        graph(nodes=NODES + "    post_mappings: [{type: cel, to: y}]\n"),
        "nodes[2].post_mappings[0].expression",
        14,
        "expression is missing",
    ),
    (
        "a direct mapping with a rule",
        graph(nodes=NODES + "    post_mappings: [{type: direct, from: x, to: y, rule: z}]\n"),
        "nodes[2].post_mappings[0].rule",
        14,
        "a mapping of type direct has no rule",
    ),
    (
        "mapping twice",
        graph(
            nodes=NODES
            + "    post_mappings:\n      - {id: m, type: direct, from: doc_id, to: doc_id}\n"
            + "      - {id: m, type: direct, from: doc_id, to: doc_id}\n"
        ),
        "nodes[2].post_mappings[1].id",
        16,
        "mapping m is already defined",
    ),
    (
        "mapping's expression",
        graph(nodes=NODES + "    post_mappings: [{type: cel, expression: 'doc.nothing', to: search_metadata.title}]\n"),
        "nodes[2].post_mappings[0]",
        14,
        "nothing",
    ),
    (
        "mapping to a field that is not there",
        graph(nodes=NODES + "    post_mappings: [{type: direct, from: doc_id, to: search_metadata.titel}]\n"),
        "nodes[2].post_mappings[0]",
        14,
        "titel",
    ),
    (
        "mapping by a rule that is not there",
        graph(nodes=NODES + "    post_mappings: [{type: transform, from: doc_id, to: doc_id, rule: shout}]\n"),
        "nodes[2].post_mappings[0]",
        14,
        "there is no rule 'shout'",
    ),
    # conditions
    ("condition", graph(edges=EDGES + "    when: doc.search_metadata.titel == 'x'\n"), "edges[1].when", 19, "titel"),
    (
        "condition that is no condition",
        graph(edges=EDGES + "    when: doc.search_metadata.title\n"),
        "edges[1].when",
        19,
        "must be true or false, not string",
    ),
    ("filter", graph(nodes=NODES + "    filters: ['true', 'doc.(']\n"), "nodes[2].filters[1]", 14, "^"),
    # topics
    ("topic", graph(edges=EDGES + "    topic: a b\n"), "edges[1].topic", 19, "'a b' cannot be a topic"),
    (
        "topic of Kafka's own",
        graph(edges=EDGES + "    topic: __consumer_offsets\n"),
        "edges[1].topic",
        19,
        "cannot be a topic",
    ),
    (
        "topic of another node",
        graph(edges=EDGES + "    topic: pipestream.main.a\n"),
        "edges[1].topic",
        19,
        "collides with the topic of node a",
    ),
    (
        "topic that Kafka takes for another",
        graph(edges=EDGES + "    topic: pipestream_main.a\n"),
        "edges[1].topic",
        19,
        "collides with the topic of node a",
    ),
    (
        "topic of a datasource",
        graph(edges=EDGES + "    topic: intake.files\n"),
        "edges[1].topic",
        19,
        "collides with the intake of datasource files",
    ),
    (
        "topic of dead letters",
        graph(edges=EDGES + "    topic: dlq.main.b\n"),
        "edges[1].topic",
        19,
        "collides with the dead letters of node b",
    ),
    (
        "topic of another graph",
        graph(edges=EDGES + "    topic: pipestream.main.elsewhere\n"),
        "edges[1].topic",
        19,
        "belong to the product",
    ),
    (
        "topic to two nodes",
        graph(edges="edges:\n  - {from: a, to: b, topic: mine}\n  - {from: b, to: done, topic: mine}\n"),
        "edges[1].topic",
        16,
        "mine already leads to b",
    ),
    (
        "dead letters on a drained topic",
        graph(nodes=NODES + "    dead_letters: {topic: pipestream.main.b}\n"),
        "nodes[2].dead_letters.topic",
        14,
        "collides with the topic of node b",
    ),
    (
        "dead letters on an edge's topic",
        graph(
            nodes=NODES + "    dead_letters: {topic: mine}\n",
            edges="edges:\n  - {from: a, to: b, topic: mine}\n  - {from: b, to: done}\n",
        ),
        "nodes[2].dead_letters.topic",
        14,
        "collides with topic mine that leads to b",
    ),
]


@pytest.mark.parametrize(("text", "field", "line", "message"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_refuses(text, field, line, message):
    problems = problems_of(text)

    assert [(problem.field, problem.line) for problem in problems] == [(field, line)], [str(each) for each in problems]
    assert message in problems[0].message


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("cycle with a limit", EDGES + "  - {from: b, to: a, max_hops: 3}\n"),
        ("second edge between the same nodes", EDGES + "  - {id: again, from: a, to: b, when: 'true'}\n"),
        ("other cluster's node that this graph does not know", EDGES + "  - {from: b, to: far, cluster: other}\n"),
        ("a way back from another cluster's node of the same name", EDGES + "  - {from: b, to: a, cluster: other}\n"),
        ("own cluster named", EDGES + "    cluster: main\n"),
        ("implicit happy-end", EDGES + "  - {from: b, to: happy-end}\n"),
        ("target's own topic", EDGES.replace("to: b\n", "to: b\n    topic: pipestream.main.b\n")),
        (
            "topic for two edges to one node",
            EDGES.replace("to: b\n", "to: b\n    topic: mine\n") + "  - {id: x, from: a, to: b, topic: mine}\n",
        ),
        ("negative priority", EDGES + "    priority: -5\n"),
    ],
)
def test_accepts(name, edges):
    assert problems_of(graph(edges=edges)) == (), name


def test_reports_all_problems_at_once_in_the_order_of_the_file():
    text = graph(
        head=HEAD + "colour: red\n",
        nodes=NODES + "    partitions: none\n",
        edges=EDGES.replace("to: done", "to: nowhere") + "    when: doc.(\n",
    )

    assert [(problem.line, problem.field) for problem in problems_of(text)] == [
        (3, "colour"),
        (15, "nodes[2].partitions"),
        (20, "edges[1].to"),
        (21, "edges[1].when"),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (graph(edges=EDGES.replace("to: done", "to: dune")), "did you mean done?"),
        (graph(head=HEAD + "discription: x\n"), "did you mean description?"),
        (graph(nodes=NODES + "    retention_hour: 3\n"), "did you mean retention_hours?"),
        (graph(edges=EDGES.replace("to: done", "to: zzzzz")), "known: a, b, done, happy-end"),
    ],
)
def test_hints_at_what_was_meant(text, hint):
    assert [problem.hint for problem in problems_of(text)] == [hint]


def test_a_condition_is_shown_with_a_caret_under_the_place():
    (problem,) = problems_of(graph(edges=EDGES + "    when: doc.search_metadata.titel == 'x'\n"))

    lines = problem.message.splitlines()
    assert lines[-2].strip() == "doc.search_metadata.titel == 'x'"
    assert lines[-1].strip() == "^"


def test_a_node_whose_id_cannot_be_read_is_one_problem_and_not_one_per_edge():
    problems = problems_of(graph(nodes=NODES.replace("id: b", "id: 7")))

    assert [problem.field for problem in problems] == ["nodes[1].id"]


def test_a_limit_that_cannot_be_read_is_not_taken_for_no_limit():
    problems = problems_of(graph(edges=EDGES + "  - {from: b, to: a, max_hops: often}\n"))

    assert [problem.field for problem in problems] == ["edges[2].max_hops"]


def test_a_node_that_no_document_can_reach_is_a_warning():
    check = check_graph_text(graph(nodes=NODES + "  - {id: lonely, module: 'python:json:loads'}\n").encode(), "g.yaml")

    assert check.problems == ()
    assert [(warning.field, warning.line) for warning in check.warnings] == [("nodes[3].id", 14)]
    assert "no document can reach lonely" in check.warnings[0].message


@pytest.mark.parametrize("extra", ["visibility: public", "type: connector"])
def test_a_node_that_others_send_to_is_reachable(extra):
    nodes = NODES + f"  - id: door\n    module: python:json:loads\n    {extra}\n"

    assert check_graph_text(graph(nodes=nodes).encode(), "g.yaml").warnings == ()


MODULE = NODES + "    module: {}\n"
MODULE_PLACE = ("nodes[2].module", 14)
CONNECTOR = SOURCES + "    connector: {}\n"
CONNECTOR_PLACE = ("datasources[0].connector", 7)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (graph(nodes=MODULE.format("python:no_such_package:run")), MODULE_PLACE, "cannot import no_such_package"),
        (graph(nodes=MODULE.format("python:json:no_such_function")), MODULE_PLACE, "json has no no_such_function"),
        (graph(nodes=MODULE.format("python:json:__name__")), MODULE_PLACE, "cannot be called"),
        (
            graph(sources=CONNECTOR.format("{kind: ftp}")),
            CONNECTOR_PLACE,
            "there is no connector 'ftp'; there are: csv, feed, folder, jsonl, s3, sitemap, sql",
        ),
        (graph(sources=CONNECTOR.format("{kind: folder, paht: /in}")), CONNECTOR_PLACE, "unknown option paht"),
        (graph(sources=CONNECTOR.format("{kind: folder}")), CONNECTOR_PLACE, "path is missing"),
    ],
)
def test_what_a_graph_names_outside_itself_is_looked_up_only_on_request(text, place, message):
    assert check_graph_text(text.encode(), "g.yaml").problems == ()
    (problem,) = check_graph_text(text.encode(), "g.yaml", look_up=True).problems
    assert (problem.field, problem.line) == place
    assert message in problem.message
