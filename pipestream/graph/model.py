"""A pipeline graph as values: what a graph file says, checked and complete.

Nothing here reads a file or a broker. ``load.py`` makes these from YAML, ``proto.py`` from and to the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipestream.routing.field_mapping import FieldMapping, MappingType

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "HAPPY_END",
    "NO_HYDRATION",
    "ON_ARRIVAL",
    "Arrival",
    "Connector",
    "Datasource",
    "DeadLetterPolicy",
    "Edge",
    "FieldMapping",
    "Graph",
    "GraphMode",
    "Hydration",
    "LiveServers",
    "MappingType",
    "Node",
    "NodeType",
    "Persistence",
    "Transport",
    "Visibility",
]

HAPPY_END = "happy-end"
"""The end node of a graph that names none."""


class NodeType(Enum):
    """What a node is for."""

    CONNECTOR = "connector"
    PROCESSOR = "processor"
    SINK = "sink"
    """An end node: it consumes and routes nothing."""


class Transport(Enum):
    """How an edge carries a document to its target."""

    KAFKA = "kafka"
    GRPC = "grpc"


class Visibility(Enum):
    """Who may send to a node from other clusters."""

    PRIVATE = "private"
    PUBLIC = "public"
    RESTRICTED = "restricted"


class GraphMode(Enum):
    """Whether a graph is being drawn or in use."""

    DESIGN = "design"
    PRODUCTION = "production"


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """What happens to a document that fails at a node. ``None`` means the setting of the installation."""

    enabled: bool = True
    topic_override: str = ""
    max_attempts: int | None = None
    initial_backoff_ms: int | None = None
    max_backoff_ms: int | None = None
    backoff_multiplier: float = 2.0
    include_payload: bool = True


@dataclass(frozen=True, slots=True)
class Hydration:
    """What becomes of blobs: which ones a parser gets inline, and what is kept of them afterwards."""

    policy: str = ""
    """``auto``, ``always_inline``, ``always_ref`` or ``on_demand``; empty: auto."""
    max_inline_blob_size_bytes: int = 0
    """0: no limit."""
    keep_blobs_as_ref: bool = False
    drop_blobs_after_parse: bool = False
    allow_inline_blobs_for_parser_chains: bool = False


NO_HYDRATION = Hydration()
"""Of a part that says nothing about blobs."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """Whether documents on their way to the next node are stored, or small ones travel in the record."""

    persist_pipedoc: bool = True
    max_inline_size_bytes: int = 0
    """Without ``persist_pipedoc``: documents up to this size stay in the record; larger ones are stored."""


@dataclass(frozen=True, slots=True)
class Node:
    """A step of the graph: filter, map, call the module, map, route."""

    node_id: str
    cluster_id: str
    name: str = ""
    node_type: NodeType = NodeType.PROCESSOR
    module: str = ""
    """``python:`` or ``runtime:package.module:function``, ``grpc:host:port``, ``unix:/path``; empty passes on."""
    engine: str = ""
    """host:port of the remote engine the node lives in; empty: it runs where it is reached."""
    config: Mapping[str, Any] = field(default_factory=dict)
    config_params: Mapping[str, str] = field(default_factory=dict)
    filters: tuple[str, ...] = ()
    pre_mappings: tuple[FieldMapping, ...] = ()
    post_mappings: tuple[FieldMapping, ...] = ()
    dead_letters: DeadLetterPolicy = DeadLetterPolicy()
    timeout_s: float | None = None
    concurrency: int = 0
    """How many documents of a chunk a drain gives the module at once; 0: one."""
    storage: str = ""
    """How drains store what leaves here for another node: ``objects`` (also if empty), ``segments`` or ``auto``."""
    partitions: int | None = None
    retention_hours: float | None = None
    keep_documents_hours: float | None = None
    """How long the documents that it stored are kept; None: forever."""
    slots: int = 1
    protocol: str = ""
    """What is sent to a module behind a socket: ``payload`` (also if empty) or ``envelope``."""
    ordering: str = ""
    """``timestamp``: release records across partitions in timestamp order. Empty: in partition order."""
    start_at: str = ""
    """Where a topic without a head starts: see ``start.parse_start``. Empty: earliest."""
    visibility: Visibility = Visibility.PRIVATE
    visible_to: tuple[str, ...] = ()
    """The clusters that may send to a restricted node."""
    parser: bool = False
    """Whether the module reads blobs, also where it does not declare it."""
    hydration: Hydration = NO_HYDRATION

    @property
    def speaks_envelopes(self) -> bool:
        """Whether its module gets documents in envelopes."""
        return self.protocol == "envelope"

    @property
    def is_end(self) -> bool:
        return self.node_type is NodeType.SINK

    @property
    def is_bare_end(self) -> bool:
        """An end node that does nothing: documents stay in its topic, which nobody drains."""
        return self.is_end and not (
            self.module or self.engine or self.filters or self.pre_mappings or self.post_mappings
        )

    @property
    def is_ordered(self) -> bool:
        """Whether it gets the records of all partitions in order of time."""
        return self.ordering == "timestamp"

    def takes_from(self, cluster_id: str) -> bool:
        """Whether another cluster may send to it."""
        return self.visibility is Visibility.PUBLIC or cluster_id in self.visible_to

    @property
    def is_bridged(self) -> bool:
        """Whether it receives from other clusters, by its bridge topic."""
        return self.visibility is not Visibility.PRIVATE


@dataclass(frozen=True, slots=True)
class Edge:
    """A route from one node to another, taken by every document that its condition matches."""

    edge_id: str
    from_node_id: str
    to_node_id: str
    to_cluster_id: str = ""
    is_cross_cluster: bool = False
    condition: str = ""
    priority: int = 0
    transport: Transport = Transport.KAFKA
    kafka_topic: str = ""
    max_hops: int = 0
    """Times a document may take this edge; 0 means no limit of its own."""


@dataclass(frozen=True, slots=True)
class Connector:
    """Where a datasource's documents come from, for scheduled ingestion."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Datasource:
    """A source of documents, with an intake topic of its own."""

    datasource_id: str
    account_id: str
    entry_node_id: str
    name: str = ""
    paused: bool = False
    partitions: int | None = None
    retention_hours: float | None = None
    keep_documents_hours: float | None = None
    """How long uploaded documents are kept; None: forever."""
    slots: int = 1
    schedule: str = ""
    connector: Connector | None = None
    start_at: str = ""
    hydration: Hydration = NO_HYDRATION
    persistence: Persistence = Persistence()
    path: str = ""
    """How a document that is handed to an engine starts: ``direct`` in the call, ``stored`` by the intake topic.
    Empty: by its size."""
    complete_hours: bool = False
    """Whether an asset of Airflow is updated for each hour that is drained to its end."""


@dataclass(frozen=True, slots=True)
class LiveServers:
    """The servers that Airflow keeps up for a graph; empty: none of this kind."""

    engine: str = ""
    repository: str = ""
    sidecar: str = ""
    stream: str = ""

    @property
    def wanted(self) -> dict[str, str]:
        """Return the servers that the graph wants, and how each is run."""
        return {each.name: how for each in fields(self) if (how := getattr(self, each.name))}


ON_ARRIVAL = "on_arrival"
"""The schedule of a graph whose runs start when documents wait."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """When enough waits for a run of a graph with the schedule ``on_arrival``. ``None`` means the setting."""

    records: int | None = None
    """A run starts when so many offsets wait in all topics of the graph together."""
    oldest_seconds: int | None = None
    """A run starts when the oldest record has waited so long, however few wait."""


@dataclass(frozen=True)
class Graph:
    """A whole pipeline graph. Always complete: its happy-end is among its nodes."""

    graph_id: str
    cluster_id: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    datasources: tuple[Datasource, ...] = ()
    name: str = ""
    description: str = ""
    schedule: str = ""
    happy_end: str = HAPPY_END
    error_end: str = ""
    """The end node of documents that fail; empty: they become dead letters."""
    max_hops: int = 100
    """Hops after which any document of this graph fails, whatever its edges allow."""
    mode: GraphMode = GraphMode.PRODUCTION
    live: LiveServers = LiveServers()
    arrival: Arrival = Arrival()
    age_target_seconds: int | None = None
    """How old a document may be when it reaches its end, from when its record was written; None: no target."""

    @cached_property
    def node_by_id(self) -> dict[str, Node]:
        return {node.node_id: node for node in self.nodes}

    @cached_property
    def destinations(self) -> dict[int, tuple[Edge, Any]]:
        """Where edges write, as ``flow.destination_of`` found it out: every document asks, and the answer stays."""
        return {}

    @cached_property
    def datasource_by_id(self) -> dict[str, Datasource]:
        return {source.datasource_id: source for source in self.datasources}

    @cached_property
    def edges_from(self) -> dict[str, tuple[Edge, ...]]:
        """Outgoing edges per node, in the order they are tried: by priority, then by id."""
        found: dict[str, list[Edge]] = {node.node_id: [] for node in self.nodes}
        for edge in self.edges:
            found.setdefault(edge.from_node_id, []).append(edge)
        return {
            node_id: tuple(sorted(edges, key=lambda edge: (edge.priority, edge.edge_id)))
            for node_id, edges in found.items()
        }
