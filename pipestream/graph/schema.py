"""The format of a graph file: which keys stand where and what they hold.

The one description of the format. ``read.py`` reads files by it and ``json_schema`` publishes it for editors.
"""

from __future__ import annotations

from typing import Any

from pipestream.graph.fields import Choice, Field, Flag, Free, Number, Section, Sections, Text, TextMap, Texts, Whole
from pipestream.graph.model import GraphMode, MappingType, NodeType, Transport, Visibility

INT32_MAX = 2**31 - 1
MAX_PARTITIONS = 10_000
MAX_SLOTS = 1_000
MAX_HOURS = 1_000_000
DAY_S = 86_400
DAY_MS = DAY_S * 1_000

ORDERINGS = ("timestamp",)
AGGREGATIONS = ("concatenate", "sum")

_ID = Text(1)
_START_AT = "Where a topic without a head starts: earliest, latest, committed:GROUP, an ISO 8601 time or duration."

MAPPING = Section(
    "mapping",
    {
        "id": Field(_ID, "Name of the mapping in errors; default: its place in the list."),
        "type": Field(Choice(tuple(kind.value for kind in MappingType)), "How sources become targets.", required=True),
        "from": Field(Texts(single=True), "Source field paths of the document, e.g. search_metadata.title."),
        "to": Field(Texts(single=True), "Target field paths of the document.", required=True),
        "rule": Field(Text(1), "transform: the rule's name."),
        "params": Field(Free(), "transform: what the rule needs to know."),
        "aggregation": Field(Choice(AGGREGATIONS), "aggregate: how several values become one."),
        "delimiter": Field(Text(1), "aggregate, split: the text between values."),
        "expression": Field(Text(1), "cel: the expression whose value goes to the target."),
    },
)

DEAD_LETTERS = Section(
    "dead_letters",
    {
        "enabled": Field(Flag(), "Whether documents that fail here become dead letters; default true."),
        "topic": Field(Text(1), "Topic instead of dlq.CLUSTER.NODE."),
        "max_attempts": Field(
            Whole(1, 1_000), "Tries of a document that fails transiently, or that a process dies at."
        ),
        "initial_backoff_ms": Field(Whole(0, DAY_MS), "First pause between tries."),
        "max_backoff_ms": Field(Whole(0, DAY_MS), "Longest pause between tries."),
        "multiplier": Field(Number(1, 1_000, inclusive=True), "How much longer each pause is; default 2."),
        "include_payload": Field(
            Flag(), "Whether a dead letter holds the document; false: a reference to it, as stored; default true."
        ),
    },
)

NODE = Section(
    "node",
    {
        "id": Field(_ID, "Unique in its cluster; part of the topic's name.", required=True),
        "name": Field(Text(), "Name for people."),
        "type": Field(Choice(tuple(kind.value for kind in NodeType)), "What the node is for; default processor."),
        "module": Field(Text(1), "python:PACKAGE.MODULE:FUNCTION, grpc:HOST:PORT or unix:/PATH."),
        "engine": Field(Text(1), "HOST:PORT of the remote engine the node lives in."),
        "config": Field(Free(), "What the module is given as its configuration: json_config of a gRPC module."),
        "config_params": Field(TextMap(), "Further parameters, each a text: config_params of a gRPC module."),
        "filters": Field(Texts(), "CEL conditions; a document that fails one skips the module."),
        "pre_mappings": Field(Sections(MAPPING), "Field mappings before the module."),
        "post_mappings": Field(Sections(MAPPING), "Field mappings after the module."),
        "dead_letters": Field(DEAD_LETTERS, "What happens to documents that fail here."),
        "visibility": Field(
            Choice(tuple(kind.value for kind in Visibility)),
            "Who may send here from other clusters; default private (nobody). Others get a bridge topic.",
        ),
        "timeout_s": Field(Number(0, DAY_S), "How long the module may take for one document."),
        "partitions": Field(Whole(1, MAX_PARTITIONS), "Partitions of the node's topics."),
        "retention_hours": Field(Number(0, MAX_HOURS), "How long Kafka keeps the records of the node's topics."),
        "slots": Field(
            Whole(1, MAX_SLOTS),
            "Drains that may share the node's topic at first; default 1. `pipestream leases set` changes it.",
        ),
        "ordering": Field(Choice(ORDERINGS), "timestamp: release records across partitions in timestamp order."),
        "start_at": Field(Text(1), _START_AT),
    },
)

EDGE = Section(
    "edge",
    {
        "id": Field(_ID, "Unique in the graph; default FROM--TO."),
        "from": Field(_ID, "Node the edge leaves.", required=True),
        "to": Field(_ID, "Node the edge enters.", required=True),
        "cluster": Field(_ID, "Cluster of the target, if it is another one."),
        "when": Field(Text(1), "CEL condition; absent: always."),
        "priority": Field(Whole(-INT32_MAX, INT32_MAX), "Lower is tried first; default 0."),
        "transport": Field(Choice(tuple(kind.value for kind in Transport)), "Default kafka."),
        "topic": Field(Text(1), "Topic instead of pipestream.CLUSTER.NODE."),
        "max_hops": Field(Whole(0, INT32_MAX), "Times one document may take this edge; 0: no limit of its own."),
    },
)

CONNECTOR = Section(
    "connector", {"kind": Field(Text(1), "Which connector; its options stand beside it.", required=True)}, others=True
)

DATASOURCE = Section(
    "datasource",
    {
        "id": Field(_ID, "Part of the intake topic's name.", required=True),
        "account": Field(
            _ID,
            "Account that owns the documents; part of every object's key. Records of another one are refused.",
            required=True,
        ),
        "entry": Field(_ID, "Node that its documents enter.", required=True),
        "name": Field(Text(), "Name for people."),
        "partitions": Field(Whole(1, MAX_PARTITIONS), "Partitions of the intake topic."),
        "retention_hours": Field(Number(0, MAX_HOURS), "How long Kafka keeps the intake topic's records."),
        "paused": Field(Flag(), "Whether its intake topic is left alone; default false."),
        "slots": Field(
            Whole(1, MAX_SLOTS),
            "Drains that may share the intake topic at first; default 1. `pipestream leases set` changes it.",
        ),
        "start_at": Field(Text(1), _START_AT),
        "schedule": Field(Text(1), "When its connector runs: cron or a preset."),
        "connector": Field(CONNECTOR, "Where scheduled ingestion finds documents."),
    },
)

GRAPH = Section(
    "graph",
    {
        "graph": Field(_ID, "The graph's id.", required=True),
        "cluster": Field(_ID, "The cluster its nodes live in.", required=True),
        "name": Field(Text(), "Name for people."),
        "description": Field(Text(), "What the graph is for."),
        "mode": Field(
            Choice(tuple(mode.value for mode in GraphMode)),
            "design: being drawn, so it is not applied; default production.",
        ),
        "schedule": Field(Text(1), "When its runs start: cron or a preset; absent: only by hand."),
        "happy_end": Field(_ID, "Sink where documents end well; default happy-end, which need not be listed."),
        "error_end": Field(_ID, "Sink for documents that fail; absent: they become dead letters."),
        "max_hops": Field(Whole(1, INT32_MAX), "Hops after which any document fails; default 100."),
        "datasources": Field(Sections(DATASOURCE), "Where documents come from."),
        "nodes": Field(Sections(NODE), "The steps.", required=True),
        "edges": Field(Sections(EDGE), "The ways between them."),
    },
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a graph file, for editors and other tools."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pipestream graph",
        "description": "A pipeline graph: nodes, the edges between them, and the datasources that feed them.",
        **GRAPH.schema(),
    }
