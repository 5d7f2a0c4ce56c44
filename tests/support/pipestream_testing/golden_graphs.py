"""The golden graphs: files of graphs and the hashes they had when they were written down.

A graph's hash is its identity in the ledger, in plans and in the catalogue. It must stay the same whatever happens to
the code that reads and writes graphs. ``python -m pipestream_testing.golden_graphs`` adds graphs to the list, and never
changes one that is there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import graph_hash
from pipestream.graph.write import to_yaml
from pipestream_testing.graphs import GraphMaker

TESTS = Path(__file__).resolve().parents[2]
FILE = TESTS / "data" / "golden_graphs.jsonl"
RANDOM_GRAPHS = 130
WRITTEN_GRAPHS = (
    TESTS.parent / "dags" / "graphs" / "sample.yaml",
    TESTS / "data" / "exactly_once.yaml",
    TESTS / "data" / "blobs.yaml",
    TESTS / "data" / "paths.yaml",
    TESTS / "data" / "live.yaml",
    TESTS / "data" / "sockets.yaml",
    TESTS / "data" / "waiting.yaml",
    TESTS / "data" / "arrival.yaml",
    TESTS / "data" / "packed.yaml",
    TESTS / "data" / "hours.yaml",
)

WORDS = ["a", "Two words", "yes", "1.10", "0x1F", "- dash", "# hash", "a: b", "line\nbreak", "ünïcødé 文書", "'\"", " "]
CONFIGS: list[dict[str, Any]] = [
    {"limit": 3, "share": 0.5, "deep": {"list": [1, "two", None, True, {"three": 3.25}]}, "": "empty key"},
    {"model": "e5", "on": "yes", "large": 2**53, "small": -(2**53), "text": "a\nb\ttab"},
    {"nothing": None, "flags": [True, False], "nested": {"a": {"b": {"c": []}}}},
]


@dataclass(frozen=True, slots=True)
class GoldenGraph:
    """A graph file, and the hash that its graph must always have."""

    name: str
    hash: str
    text: str


def read_golden_graphs() -> list[GoldenGraph]:
    """Return the list, in the order in which it was written."""
    return [GoldenGraph(**json.loads(line)) for line in FILE.read_text().splitlines()]


def add_golden_graphs() -> None:
    """Write down the graphs that the list does not have yet."""
    known = {golden.name for golden in read_golden_graphs()} if FILE.exists() else set()
    with FILE.open("a") as file:
        for name, text in _named_texts():
            if name not in known:
                graph = check_graph_text(text.encode(), name).require()
                file.write(json.dumps({"name": name, "hash": graph_hash(graph), "text": text}) + "\n")


def _named_texts() -> list[tuple[str, str]]:
    written = [(path.name, path.read_text().replace("UNIQUE", "golden")) for path in WRITTEN_GRAPHS]
    return written + [
        (f"random-{seed}", to_yaml(GraphMaker(Random(seed), WORDS, CONFIGS).make())) for seed in range(RANDOM_GRAPHS)
    ]


if __name__ == "__main__":
    add_golden_graphs()
