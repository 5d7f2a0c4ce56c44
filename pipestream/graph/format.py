"""The fields of a graph, each defined once: key in a file, attribute, kind, field on the wire, and help.

Everything that converts a graph uses these tables: ``read.py`` and ``draft.py`` (file to model), ``write.py`` (model to
file), ``wire_fields.py`` and ``proto.py`` (model to message and back), ``json_schema`` and docs/graphs.md. Defaults are
those of the model's attributes.
"""

from __future__ import annotations

from typing import Any

from pipestream.graph.kinds import Choice, Field, Flag, Free, Number, Section, Sections, Text, TextMap, Texts, Whole
from pipestream.graph.model import (
    Arrival,
    Connector,
    Datasource,
    DeadLetterPolicy,
    Edge,
    FieldMapping,
    Graph,
    GraphMode,
    Hydration,
    LiveServers,
    MappingType,
    Node,
    NodeType,
    Persistence,
    Transport,
    Visibility,
)
from pipestream.graph.wire_fields import (
    Attempts,
    ByMappingType,
    ConnectorParts,
    EnumField,
    MappingTypeField,
    Milliseconds,
    Repeated,
    Scalar,
    StructField,
    TextMapField,
)

INT32_MAX = 2**31 - 1
MAX_PARTITIONS = 10_000
MAX_SLOTS = 1_000
MAX_CONCURRENCY = 1_000
MAX_HOURS = 1_000_000
DAY_S = 86_400
DAY_MS = DAY_S * 1_000

ORDERINGS = ("timestamp",)
INTAKE_PATHS = ("direct", "stored")
PROTOCOLS = ("payload", "envelope")
AGGREGATIONS = ("concatenate", "sum")
LIVE_WAYS = ("run", "external")
"""Airflow starts the server; or it watches one that runs elsewhere."""
STORAGES = ("objects", "segments", "auto")
HYDRATION_POLICIES = ("auto", "always_inline", "always_ref", "on_demand")
# A record with an inline document must fit into a topic's max.message.bytes (1 MB by default) with history and headers.
MAX_INLINE_DOCUMENT_BYTES = 512 * 1024

_ID = Text(1)
_START_AT = Field(
    "start_at",
    Text(1),
    "Where a topic without a head starts: earliest, latest, committed:GROUP, an ISO 8601 time or duration.",
)


def _default_aggregation(mapping: Any, _: int) -> str:
    return AGGREGATIONS[0] if mapping["mapping_type"] is MappingType.AGGREGATE else ""


# A row a field, so that these read as the tables they are.
# fmt: off
MAPPING = Section(
    "mapping",
    FieldMapping,
    (
        Field("id", _ID, "Name of the mapping in errors; default: m and its place in the list, from m1.",
              "mapping_id", implied=lambda _, number: f"m{number}"),
        Field("type", Choice(MappingType), "How sources become targets.", "mapping_type", required=True,
              wire=MappingTypeField()),
        Field("from", Texts(single=True), "Source field paths of the document, e.g. search_metadata.title.",
              "source_field_paths"),
        Field("to", Texts(single=True), "Target field paths of the document.", "target_field_paths", required=True,
              wire=Repeated("target_field_paths", always=True)),
        Field("rule", Text(1), "transform: the rule's name.",
              wire=ByMappingType(transform=Scalar("transform_config.rule_name"))),
        Field("params", Free(), "transform: the rule's parameters.",
              wire=ByMappingType(transform=StructField("transform_config.params"))),
        Field("aggregation", Choice(AGGREGATIONS), "aggregate: how several values become one; default concatenate.",
              wire=ByMappingType(aggregate=EnumField("aggregate_config.aggregation_type")),
              implied=_default_aggregation),
        Field("delimiter", Text(1), "aggregate, split: the text between values.",
              wire=ByMappingType(aggregate=Scalar("aggregate_config.delimiter"),
                                 split=Scalar("split_config.delimiter"))),
        Field("expression", Text(1), "cel: the expression whose value goes to the target.",
              wire=ByMappingType(cel=Scalar("cel_config.expression"))),
    ),
    identity=("type",),
)

DEAD_LETTERS = Section(
    "dead_letters",
    DeadLetterPolicy,
    (
        Field("enabled", Flag(), "Whether documents that fail here become dead letters.",
              wire=Scalar("enabled", always=True)),
        Field("topic", Text(1), "Topic instead of dlq.CLUSTER.NODE.", "topic_override"),
        Field("max_attempts", Whole(1, 1000),
              "Attempts for a document that fails transiently, or at which a process dies.", wire=Attempts()),
        Field("initial_backoff_ms", Whole(0, DAY_MS), "First pause between attempts.",
              wire=Milliseconds("initial_backoff")),
        Field("max_backoff_ms", Whole(0, DAY_MS), "Longest pause between attempts.", wire=Milliseconds("max_backoff")),
        Field("multiplier", Number(1, 1000, inclusive=True), "Each pause is this many times the one before.",
              "backoff_multiplier"),
        Field("include_payload", Flag(),
              "Whether a dead letter holds the document; false: a reference to it, as stored.",
              wire=Scalar("include_payload", always=True)),
    ),
)

HYDRATION = Section(
    "hydration",
    Hydration,
    (
        Field("policy", Choice(HYDRATION_POLICIES),
              "Of a node, which blobs a parser gets inline. auto: up to max_inline_blob_size_bytes; always_inline: "
              "all; always_ref: none, only references; on_demand: as auto, if the node has parser: true. Of a "
              "datasource, how uploads are stored. always_inline: blobs in the document; always_ref: as objects of "
              "their own; else by max_inline_blob_size_bytes. Default: auto.",
              wire=EnumField("default_hydration_policy")),
        Field("max_inline_blob_size_bytes", Whole(0, INT32_MAX),
              "Of a node, the largest blob that is fetched; of a datasource, the largest that is stored in its "
              "document. 0: no limit of its own."),
        Field("keep_blobs_as_ref", Flag(),
              "Whether blobs above max_inline_blob_size_bytes are stored as objects of their own when the document "
              "leaves the node."),
        Field("drop_blobs_after_parse", Flag(),
              "Whether blobs lose their content behind a parser; name, type and size stay."),
        Field("allow_inline_blobs_for_parser_chains", Flag(),
              "Whether the next parser in the same task gets the blobs without fetching them again."),
    ),
)

PERSISTENCE = Section(
    "persistence",
    Persistence,
    (
        Field("persist_pipedoc", Flag(),
              "Whether every document between two nodes is stored as an object; false: small ones stay in the record.",
              wire=Scalar("persist_pipedoc", always=True)),
        Field("max_inline_size_bytes", Whole(0, MAX_INLINE_DOCUMENT_BYTES),
              "persist_pipedoc: false: the largest document that stays in the record."),
    ),
)

NODE = Section(
    "node",
    Node,
    (
        Field("id", _ID, "Unique in its cluster; part of the topic's name.", "node_id", required=True),
        Field("name", Text(), "Name for people."),
        Field("type", Choice(NodeType), "What the node is for.", "node_type"),
        Field("module", Text(1),
              "python:PACKAGE.MODULE:FUNCTION, runtime:PACKAGE.MODULE:FUNCTION (in a process of its own), "
              "grpc:HOST:PORT or unix:/PATH.",
              wire="module_id"),
        Field("protocol", Choice(PROTOCOLS),
              "unix:, runtime: what the module is sent: payload, the document (default); envelope, with id and route."),
        Field("engine", Text(1), "The remote engine the node lives in: HOST:PORT, or NAME://TARGET of a plugin.",
              wire="engine_address"),
        Field("config", Free(), "The module's configuration: json_config of a gRPC module.",
              wire=StructField("custom_config.json_config")),
        Field("config_params", TextMap(), "Further parameters, each a text: config_params of a gRPC module.",
              wire=TextMapField("custom_config.config_params")),
        Field("filters", Texts(), "CEL conditions; a document that fails one skips the module.",
              wire="filter_conditions"),
        Field("pre_mappings", Sections(MAPPING), "Field mappings before the module."),
        Field("post_mappings", Sections(MAPPING), "Field mappings after the module."),
        Field("dead_letters", DEAD_LETTERS, "What happens to documents that fail here.", wire="dlq_config"),
        Field("visibility", Choice(Visibility),
              "Who may send here from other clusters: nobody, everybody, or those that visible_to names."),
        Field("visible_to", Texts(), "restricted: the clusters that may send here."),
        Field("timeout_s", Number(0, DAY_S), "How long the module may take for one document."),
        Field("concurrency", Whole(1, MAX_CONCURRENCY),
              "Documents that a drain gives the module at once, for modules that wait. A Python function "
              "has to declare that it allows this."),
        Field("storage", Choice(STORAGES),
              "How the documents that leave the node for another one are stored. objects: one object each (default); "
              "segments: the small ones of a chunk, or of calls at the same time, together in one object; auto: "
              "segments for 32 documents and more, so not for the small chunks of a topic that streams."),
        Field("parser", Flag(), "Whether the module reads blobs, also where it does not declare it."),
        Field("hydration", HYDRATION, "Which blobs the module gets, and what is kept of them.",
              wire="hydration_config"),
        Field("partitions", Whole(1, MAX_PARTITIONS), "Partitions of the node's topics.", wire="kafka_partitions"),
        Field("retention_hours", Number(0, MAX_HOURS), "How long Kafka keeps the records of the node's topics."),
        Field(
            "keep_documents_hours",
            Number(0, MAX_HOURS),
            "How long the node's stored documents are kept at least; longer while a record refers to them. "
            "Absent: forever.",
        ),
        Field("slots", Whole(1, MAX_SLOTS),
              "Drains that may share the node's topic at first. `pipestream leases set` changes it.",
              wire="consumer_slots"),
        Field("ordering", Choice(ORDERINGS), "timestamp: release records across partitions in timestamp order."),
        _START_AT,
    ),
    identity=("id",),
)

EDGE = Section(
    "edge",
    Edge,
    (
        Field("id", _ID, "Unique in the graph; default FROM--TO.", "edge_id",
              implied=lambda edge, _: f"{edge['from_node_id']}--{edge['to_node_id']}"),
        Field("from", _ID, "Node the edge leaves.", "from_node_id", required=True),
        Field("to", _ID, "Node the edge enters.", "to_node_id", required=True),
        Field("cluster", _ID, "Cluster of the target, if it is another one.", "to_cluster_id"),
        Field("when", Text(1), "CEL condition; absent: always.", "condition"),
        Field("priority", Whole(-INT32_MAX, INT32_MAX), "Lower is tried first."),
        Field("transport", Choice(Transport), "How documents get to the target.",
              wire=EnumField("transport_type", renamed={"KAFKA": "MESSAGING"})),
        Field("topic", Text(1), "Topic instead of pipestream.CLUSTER.NODE.", "kafka_topic"),
        Field("max_hops", Whole(0, INT32_MAX), "Times one document may take this edge; 0: no limit."),
    ),
    identity=("from", "to"),
)

CONNECTOR = Section(
    "connector",
    Connector,
    (Field("kind", Text(1), "Which connector; its options are further keys of this mapping.", required=True),),
    identity=("kind",),
    others="options",
)

DATASOURCE = Section(
    "datasource",
    Datasource,
    (
        Field("id", _ID, "Part of the intake topic's name.", "datasource_id", required=True),
        Field("account", _ID,
              "Account that owns the documents; part of every object's key. Records of another one are refused.",
              "account_id", required=True),
        Field("entry", _ID, "Node that its documents enter.", "entry_node_id", required=True),
        Field("name", Text(), "Name for people."),
        Field("partitions", Whole(1, MAX_PARTITIONS), "Partitions of the intake topic."),
        Field("retention_hours", Number(0, MAX_HOURS), "How long Kafka keeps the intake topic's records."),
        Field(
            "keep_documents_hours",
            Number(0, MAX_HOURS),
            "How long uploaded documents are kept at least; longer while a record refers to them. Absent: forever.",
        ),
        Field("hydration", HYDRATION, "What becomes of blobs, at nodes that do not say it themselves.",
              wire="hydration_config"),
        Field("persistence", PERSISTENCE, "Whether its documents are stored between two nodes.",
              wire="persistence_config"),
        Field("path", Choice(INTAKE_PATHS),
              "How a document that is handed to an engine starts. direct: in the call; stored: it is put into the "
              "object store first, and the intake topic is drained. Default: by its size.", wire="intake_path"),
        Field("paused", Flag(), "Whether its intake topic is not drained, and its connector does not run."),
        Field("slots", Whole(1, MAX_SLOTS),
              "Drains that may share the intake topic at first. `pipestream leases set` changes it."),
        _START_AT,
        Field("complete_hours", Flag(),
              "Whether the graph's DAG updates an asset for each hour whose documents are all drained to their end."),
        Field("schedule", Text(1), "When its connector runs: cron or a preset."),
        Field("connector", CONNECTOR, "Where scheduled ingestion finds documents.", wire=ConnectorParts()),
    ),
    identity=("id",),
)

LIVE = Section(
    "live",
    LiveServers,
    (
        Field("engine", Choice(LIVE_WAYS), "The gRPC fast path into graphs."),
        Field("repository", Choice(LIVE_WAYS), "The service that takes documents over HTTP and gRPC."),
        Field("sidecar", Choice(LIVE_WAYS), "Drains the topics that stream, without Spark."),
        Field("stream", Choice(LIVE_WAYS), "Drains the topics that stream, in one Spark session."),
    ),
)

ARRIVAL = Section(
    "arrival",
    Arrival,
    (
        Field("records", Whole(1, INT32_MAX), "Start when so many records wait in all topics together."),
        Field("oldest_seconds", Whole(1, 7 * DAY_S), "Start when the oldest record has waited so long."),
    ),
)

GRAPH = Section(
    "graph",
    Graph,
    (
        Field("graph", _ID, "The graph's id.", "graph_id", required=True),
        Field("cluster", _ID, "The cluster its nodes live in.", "cluster_id", required=True),
        Field("name", Text(), "Name for people."),
        Field("description", Text(), "What the graph is for."),
        Field("mode", Choice(GraphMode), "design: still a draft, so it is not applied."),
        Field("schedule", Text(1),
              "When its runs start: cron, a preset, or on_arrival (when documents wait); absent: only when triggered."),
        Field("arrival", ARRIVAL, "With the schedule on_arrival: when enough waits for a run."),
        Field("age_target_seconds", Whole(1, 30 * DAY_S),
              "How old a document may be when it reaches its end. An alert comes before one is older."),
        Field("live", LIVE, "Servers that the DAG pipestream_live_GRAPH keeps up."),
        Field("happy_end", _ID, "Sink where documents end well. The default one need not be listed.",
              wire="happy_end_node_id"),
        Field("error_end", _ID, "Sink for documents that fail; absent: they become dead letters.",
              wire="error_end_node_id"),
        Field("max_hops", Whole(1, INT32_MAX), "Hops after which any document fails."),
        Field("datasources", Sections(DATASOURCE), "Where documents come from."),
        Field("nodes", Sections(NODE), "The steps.", required=True),
        Field("edges", Sections(EDGE), "The routes between the nodes."),
    ),
)
# fmt: on


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a graph file, for editors and other tools."""
    from pipestream.connectors.schemas import connector_rules  # loads all of them, which only a schema needs

    described = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pipestream graph",
        "description": "A pipeline graph: nodes, the edges between them, and the datasources that feed them.",
        **GRAPH.schema(),
    }
    connector = described["properties"]["datasources"]["items"]["properties"]["connector"]
    connector["allOf"] = connector_rules()
    return described
