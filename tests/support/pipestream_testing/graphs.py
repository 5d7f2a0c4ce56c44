"""Graphs that obey every rule, made at random: the structure by a seed, words and values as given."""

from __future__ import annotations

from random import Random
from typing import Any

from pipestream.graph.model import (
    HAPPY_END,
    Connector,
    Datasource,
    DeadLetterPolicy,
    Edge,
    FieldMapping,
    Graph,
    GraphMode,
    MappingType,
    Node,
    NodeType,
    Transport,
    Visibility,
)

CLUSTER = "main"
STARTS = ["", "earliest", "latest", "PT6H", "2026-01-31T08:00:00Z", "committed:a-group"]
CONDITIONS = ["", 'doc.search_metadata.document_type == "html"', "has(doc.search_metadata.title)", "true"]


class GraphMaker:
    """Makes a random graph out of given words and configurations."""

    def __init__(self, random: Random, some_words: list[str], some_configs: list[dict[str, Any]]) -> None:
        self.random = random
        self.words = some_words
        self.configs = some_configs
        self.pick = random.choice

    def make(self) -> Graph:
        node_ids = self.random.sample(["a", "b2", "c_c", "d-d-d", "eeeee", "0"], self.random.randint(1, 6))
        nodes = [self.make_node(node_id) for node_id in node_ids]
        if all(node.is_end for node in nodes):
            nodes.append(Node("start", CLUSTER, node_type=NodeType.CONNECTOR))
        happy_end = self.pick([HAPPY_END, HAPPY_END, HAPPY_END, "well-done"])
        nodes.append(Node(happy_end, CLUSTER, node_type=NodeType.SINK))
        sources = [node.node_id for node in nodes if not node.is_end]
        sinks = [node.node_id for node in nodes if node.is_end and node.node_id != happy_end]
        everywhere = [node.node_id for node in nodes]
        return Graph(
            graph_id=self.pick(["g", "another-graph"]),
            cluster_id=CLUSTER,
            nodes=tuple(nodes),
            edges=tuple(self.make_edge(number, sources, everywhere) for number in range(self.random.randint(0, 9))),
            datasources=tuple(
                self.make_datasource(f"s{number}", sources) for number in range(self.random.randint(0, 2))
            ),
            name=self.word(),
            description=self.word(),
            schedule=self.pick(["", "@hourly", "*/5 * * * *"]),
            happy_end=happy_end,
            error_end=self.pick(["", *sinks]),
            max_hops=self.random.randint(1, 2**31 - 1),
            mode=self.pick([*GraphMode]),
        )

    def make_node(self, node_id: str) -> Node:
        kind = self.pick([NodeType.PROCESSOR, NodeType.PROCESSOR, NodeType.CONNECTOR, NodeType.SINK])
        visibility = self.pick([*Visibility])
        modules = ["python:json:loads", "grpc:127.0.0.1:5000", "unix:/run/module.sock"]
        return Node(
            node_id=node_id,
            cluster_id=CLUSTER,
            name=self.word(),
            node_type=kind,
            module=self.pick(modules if kind is NodeType.PROCESSOR else ["", *modules]),
            engine=self.pick(["", "engine:49000"]),
            config=self.config(),
            config_params=self.pick([{}, {"mode": "fast", "": self.word()}]),
            filters=tuple(self.random.sample(CONDITIONS[1:], self.random.randint(0, 2))),
            pre_mappings=tuple(self.make_mapping(f"m{number}") for number in range(self.random.randint(0, 2))),
            post_mappings=tuple(self.make_mapping(f"m{number}") for number in range(self.random.randint(0, 2))),
            dead_letters=self.make_policy(node_id),
            timeout_s=self.maybe(self.random.uniform(0.001, 86_400)),
            partitions=self.maybe(self.random.randint(1, 10_000)),
            retention_hours=self.maybe(self.random.uniform(0.001, 1_000_000)),
            keep_documents_hours=self.maybe(self.random.uniform(0.001, 1_000_000)),
            slots=self.random.randint(1, 1_000),
            ordering=self.pick(["", "timestamp"]),
            start_at=self.pick(STARTS),
            visibility=visibility,
            visible_to=self.pick([("other",), ("other", "third")]) if visibility is Visibility.RESTRICTED else (),
        )

    def make_policy(self, node_id: str) -> DeadLetterPolicy:
        return DeadLetterPolicy(
            enabled=self.pick([True, False]),
            topic_override=self.pick(["", "", f"dead-of-{node_id}"]),
            max_attempts=self.maybe(self.random.randint(1, 1_000)),
            initial_backoff_ms=self.maybe(self.random.randint(0, 500)),
            max_backoff_ms=self.maybe(self.random.randint(500, 86_400_000)),
            backoff_multiplier=self.random.uniform(1, 1_000),
            include_payload=self.pick([True, False]),
        )

    def make_mapping(self, mapping_id: str) -> FieldMapping:
        kind = self.pick([*MappingType])
        one, several = ("search_metadata.title",), ("search_metadata.title", "search_metadata.author")
        same = self.pick([one, several])
        sources, targets, fields = {
            MappingType.DIRECT: (same, same, {}),
            MappingType.TRANSFORM: (same, same, self.pick(self.rules())),
            MappingType.AGGREGATE: (several, one, self.pick(self.aggregations())),
            MappingType.SPLIT: (one, several, {"delimiter": self.pick(self.words)}),
            MappingType.CEL: (self.pick([(), one]), one, {"expression": "doc.search_metadata.title"}),
        }[kind]
        return FieldMapping(mapping_id, kind, sources, targets, **fields)

    def aggregations(self) -> list[dict[str, Any]]:
        return [{"aggregation": "sum", "delimiter": self.word()}, {"aggregation": "concatenate"}]

    def rules(self) -> list[dict[str, Any]]:
        replace_params = {"old": self.pick(self.words), "new": self.word()}
        return [
            {"rule": "trim"},
            {"rule": "replace", "params": replace_params},
            {"rule": "truncate", "params": {"length": 3}},
        ]

    def make_edge(self, number: int, sources: list[str], targets: list[str]) -> Edge:
        """Every edge has a limit, so that any cycle is allowed."""
        other = self.pick(["", "", "", "other"])
        source, target = self.pick(sources), self.pick(targets)
        # one transport between two nodes, so it follows from the pair
        fused = not other and (len(source) + len(target)) % 2
        return Edge(
            edge_id=self.pick([f"e{number}", f"{source}--{target}-{number}"]),
            from_node_id=source,
            to_node_id=target,
            to_cluster_id=other,
            is_cross_cluster=bool(other),
            condition=self.pick(CONDITIONS),
            priority=self.random.randint(-(2**31) + 1, 2**31 - 1),
            transport=Transport.GRPC if fused else Transport.KAFKA,
            kafka_topic="" if fused or other else self.pick(["", f"to-{target}", f"also-to-{target}"]),
            max_hops=self.random.randint(1, 2**31 - 1),
        )

    def make_datasource(self, datasource_id: str, entries: list[str]) -> Datasource:
        options = {key: value for key, value in self.config().items() if key != "kind"}
        connector = self.maybe(Connector(self.pick(self.words), options))
        return Datasource(
            datasource_id=datasource_id,
            account_id=self.pick(["demo", "a@b:c=d+e.f_g-h", "0"]),
            entry_node_id=self.pick(entries),
            name=self.word(),
            paused=self.pick([True, False]),
            partitions=self.maybe(self.random.randint(1, 10_000)),
            retention_hours=self.maybe(self.random.uniform(0.001, 1_000_000)),
            keep_documents_hours=self.maybe(self.random.uniform(0.001, 1_000_000)),
            slots=self.random.randint(1, 1_000),
            schedule=self.pick(["", "@daily", "0 6 * * 1-5"]) if connector else "",
            connector=connector,
            start_at=self.pick(STARTS),
        )

    def word(self) -> str:
        return self.pick(["", *self.words])

    def config(self) -> dict[str, Any]:
        return self.pick([{}, *self.configs])

    def maybe(self, value: Any) -> Any:
        return self.pick([None, value])
