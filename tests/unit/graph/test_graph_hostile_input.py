"""Whatever the bytes are: a graph or ``GraphInvalid``, and quickly."""

from __future__ import annotations

import random
import re
import time

import pytest

from pipestream.errors import GraphInvalid
from pipestream.graph.load import check_graph_text, from_binary, from_json
from pipestream.graph.proto import to_binary, to_json

GRAPH = """\
graph: sample
cluster: main
name: "A sample: with “quotes”"
schedule: "@hourly"
error_end: error-end
max_hops: 100
datasources:
  - id: sample-files
    account: demo
    entry: triage
    partitions: 2
    retention_hours: 168.5
    keep_documents_hours: 24
    paused: false
    start_at: 2026-01-31T08:00:00Z
    schedule: "0 6 * * 1-5"
    connector: {kind: folder, path: samples/documents, deep: [1, {a: null}]}
nodes:
  - id: triage
    type: connector
    config: {threshold: 0.5, words: [a, b], nested: {yes: true}}
    filters: ['doc.search_metadata.title != ""']
  - id: parse
    module: python:json:loads
    pre_mappings: [{id: m1, type: direct, from: search_metadata.title, to: search_metadata.author}]
    post_mappings:
      - {type: split, from: [doc_id], to: [doc_id], delimiter: ","}
      - {type: transform, from: doc_id, to: doc_id, rule: truncate, params: {length: 1}}
      - {type: aggregate, from: [doc_id], to: doc_id, aggregation: sum}
      - {type: cel, expression: doc.search_metadata.title, to: doc_id}
    dead_letters: {enabled: true, max_attempts: 3, initial_backoff_ms: 25, max_backoff_ms: 250, multiplier: 2.5}
    timeout_s: 30
    visibility: public
  - {id: error-end, type: sink}
edges:
  - from: triage
    to: parse
    when: doc.search_metadata.document_type == "html"
    priority: 10
  - {from: parse, to: triage, max_hops: 3, topic: back}
  - {from: parse, to: happy-end}
  - {from: parse, to: far, cluster: other}
"""
PIECES = [
    b"*a",
    b"&a ",
    b"!!python/object:x ",
    b"[",
    b"]",
    b"{",
    b"}",
    b": ",
    b"- ",
    b"\n",
    b"'",
    b'"',
    b"|\n",
    b"\t",
    b"\x00",
    b"\xff",
    b"9" * 50,
    b".nan",
    b"-1",
    b"true",
    b"~",
    "ü".encode(),
    b"? ",
    b"---\n",
    b"%YAML 9\n",
    b"<<: ",
]
LIMIT_S = 1.0


def mutate(data, rng):
    """Return bytes with a few random wounds: flips, cuts, repeats, foreign pieces and swapped lines."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(14):
            case 0 if place < len(data):
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.randrange(1, 40)]
            case 2:
                data[place:place] = rng.choice(PIECES)
            case 3:
                data[place:place] = data[place : place + rng.randrange(1, 200)] * rng.choice([1, 2, 50])
            case 4:
                lines = bytes(data).split(b"\n")
                first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[first], lines[second] = lines[second], lines[first]
                data = bytearray(b"\n".join(lines))
            case 5:
                data[place : place + 1] = bytes([rng.randrange(32, 127)])
            case _:
                # another word of the same file keeps the text in order, so that the rules get to see it
                words = re.findall(rb"[\w.-]+", data) or [b"x"]
                found = rng.choice(words)
                data = data.replace(found, rng.choice(words), 1)
    return bytes(data)


def load_yaml(data):
    check_graph_text(data, "graph.yaml").require()


GOOD = check_graph_text(GRAPH.encode(), "graph.yaml").require()
FORMS = {
    "yaml": (GRAPH.encode(), load_yaml),
    "binary": (to_binary(GOOD), from_binary),
    "json": (to_json(GOOD).encode(), from_json),
}


def survive(form, seeds):
    """Load many mutated graphs, and return how many were refused and the longest time one took."""
    data, load = FORMS[form]
    refused, longest_s = 0, 0.0
    for seed in seeds:
        mutated = mutate(data, random.Random(seed))
        started = time.thread_time()
        try:
            load(mutated)
        except GraphInvalid as invalid:
            refused += 1
            reasons = len(invalid.problems)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        else:
            reasons = 1
        assert reasons, f"seed {seed}: refused without a reason"
        longest_s = max(longest_s, time.thread_time() - started)
        assert longest_s < LIMIT_S, f"seed {seed} took {longest_s:.2f} s"
    return refused, longest_s


@pytest.mark.parametrize("form", FORMS)
def test_a_mutated_graph_loads_or_is_refused(form):
    refused, _ = survive(form, range(150))

    assert 40 < refused <= 150


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("form", FORMS)
def test_ten_thousand_mutated_graphs_load_or_are_refused(form):
    refused, longest_s = survive(form, range(1_000, 11_000))

    print(f"{form}: {refused} of 10,000 refused, the longest took {longest_s * 1_000:.0f} ms")
    assert refused > 2_000


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 100, id="noise"),
        pytest.param(b"\x0a\x02g1" * 20_000, id="one field over and over"),
        pytest.param(b"{" * 100_000, id="brackets"),
    ],
)
def test_hostile_bytes_are_not_a_message(data):
    with pytest.raises(GraphInvalid):
        from_binary(data)
    with pytest.raises(GraphInvalid):
        from_json(data)


def test_deep_json_is_refused():
    with pytest.raises(GraphInvalid, match="not a PipelineGraph in JSON"):
        from_json('{"nodes":[{"custom_config":{"json_config":' + '{"a":' * 50_000 + "1" + "}" * 50_003 + "]}")


def test_a_file_full_of_unknown_names_is_refused():
    nodes = "".join(f"  - {{id: node-number-{number}, type: connector}}\n" for number in range(3_000))
    edges = "".join(f"  - {{from: nod-number-{number}, to: nodenumber-{number}}}\n" for number in range(3_000))
    check = check_graph_text(f"graph: g\ncluster: main\nnodes:\n{nodes}edges:\n{edges}".encode(), "graph.yaml")

    assert len(check.problems) == 6_000


def test_a_graph_of_a_thousand_nodes_is_checked():
    nodes = "".join(f"  - {{id: n{number}, module: 'python:json:loads'}}\n" for number in range(1_000))
    edges = "".join(
        f"  - {{from: n{number}, to: n{number + 1}, when: 'doc.search_metadata.content_length > {number}'}}\n"
        for number in range(999)
    )
    text = f"graph: g\ncluster: main\ndatasources: [{{id: s, account: a, entry: n0}}]\nnodes:\n{nodes}edges:\n{edges}"
    started = time.thread_time()
    graph = check_graph_text(text.encode(), "graph.yaml").require()
    seconds = time.thread_time() - started

    print(f"1,000 nodes with 999 different conditions: {seconds:.2f} s")
    assert len(graph.nodes) == 1_001
