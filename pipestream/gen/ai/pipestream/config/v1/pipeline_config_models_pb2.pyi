import datetime

from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as _pipeline_core_types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_TYPE_UNSPECIFIED: _ClassVar[NodeType]
    NODE_TYPE_CONNECTOR: _ClassVar[NodeType]
    NODE_TYPE_PROCESSOR: _ClassVar[NodeType]
    NODE_TYPE_SINK: _ClassVar[NodeType]

class TransportType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSPORT_TYPE_UNSPECIFIED: _ClassVar[TransportType]
    TRANSPORT_TYPE_MESSAGING: _ClassVar[TransportType]
    TRANSPORT_TYPE_GRPC: _ClassVar[TransportType]

class ClusterVisibility(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLUSTER_VISIBILITY_UNSPECIFIED: _ClassVar[ClusterVisibility]
    CLUSTER_VISIBILITY_PRIVATE: _ClassVar[ClusterVisibility]
    CLUSTER_VISIBILITY_PUBLIC: _ClassVar[ClusterVisibility]
    CLUSTER_VISIBILITY_RESTRICTED: _ClassVar[ClusterVisibility]

class GraphMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRAPH_MODE_UNSPECIFIED: _ClassVar[GraphMode]
    GRAPH_MODE_DESIGN: _ClassVar[GraphMode]
    GRAPH_MODE_PRODUCTION: _ClassVar[GraphMode]

class NodeMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_MODE_UNSPECIFIED: _ClassVar[NodeMode]
    NODE_MODE_DESIGN: _ClassVar[NodeMode]
    NODE_MODE_PRODUCTION: _ClassVar[NodeMode]
NODE_TYPE_UNSPECIFIED: NodeType
NODE_TYPE_CONNECTOR: NodeType
NODE_TYPE_PROCESSOR: NodeType
NODE_TYPE_SINK: NodeType
TRANSPORT_TYPE_UNSPECIFIED: TransportType
TRANSPORT_TYPE_MESSAGING: TransportType
TRANSPORT_TYPE_GRPC: TransportType
CLUSTER_VISIBILITY_UNSPECIFIED: ClusterVisibility
CLUSTER_VISIBILITY_PRIVATE: ClusterVisibility
CLUSTER_VISIBILITY_PUBLIC: ClusterVisibility
CLUSTER_VISIBILITY_RESTRICTED: ClusterVisibility
GRAPH_MODE_UNSPECIFIED: GraphMode
GRAPH_MODE_DESIGN: GraphMode
GRAPH_MODE_PRODUCTION: GraphMode
NODE_MODE_UNSPECIFIED: NodeMode
NODE_MODE_DESIGN: NodeMode
NODE_MODE_PRODUCTION: NodeMode

class PipelineGraph(_message.Message):
    __slots__ = ("graph_id", "cluster_id", "name", "description", "nodes", "edges", "mode", "created_at", "modified_at", "version", "datasources", "schedule", "happy_end_node_id", "error_end_node_id", "max_hops", "live", "arrival", "age_target_seconds")
    GRAPH_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DATASOURCES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    HAPPY_END_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_END_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    AGE_TARGET_SECONDS_FIELD_NUMBER: _ClassVar[int]
    graph_id: str
    cluster_id: str
    name: str
    description: str
    nodes: _containers.RepeatedCompositeFieldContainer[GraphNode]
    edges: _containers.RepeatedCompositeFieldContainer[GraphEdge]
    mode: GraphMode
    created_at: _timestamp_pb2.Timestamp
    modified_at: _timestamp_pb2.Timestamp
    version: int
    datasources: _containers.RepeatedCompositeFieldContainer[GraphDatasource]
    schedule: str
    happy_end_node_id: str
    error_end_node_id: str
    max_hops: int
    live: LiveServers
    arrival: Arrival
    age_target_seconds: int
    def __init__(self, graph_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[GraphNode, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[GraphEdge, _Mapping]]] = ..., mode: _Optional[_Union[GraphMode, str]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., modified_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[int] = ..., datasources: _Optional[_Iterable[_Union[GraphDatasource, _Mapping]]] = ..., schedule: _Optional[str] = ..., happy_end_node_id: _Optional[str] = ..., error_end_node_id: _Optional[str] = ..., max_hops: _Optional[int] = ..., live: _Optional[_Union[LiveServers, _Mapping]] = ..., arrival: _Optional[_Union[Arrival, _Mapping]] = ..., age_target_seconds: _Optional[int] = ...) -> None: ...

class Arrival(_message.Message):
    __slots__ = ("records", "oldest_seconds")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    records: int
    oldest_seconds: int
    def __init__(self, records: _Optional[int] = ..., oldest_seconds: _Optional[int] = ...) -> None: ...

class LiveServers(_message.Message):
    __slots__ = ("engine", "repository", "sidecar", "stream")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    SIDECAR_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    engine: str
    repository: str
    sidecar: str
    stream: str
    def __init__(self, engine: _Optional[str] = ..., repository: _Optional[str] = ..., sidecar: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class GraphNode(_message.Message):
    __slots__ = ("node_id", "cluster_id", "name", "node_type", "module_id", "custom_config", "visibility", "mode", "kafka_input_topic", "repository_path", "created_at", "modified_at", "dlq_config", "pre_mappings", "post_mappings", "filter_conditions", "save_on_error", "kafka_partitions", "consumer_slots", "engine_address", "timeout_s", "retention_hours", "ordering", "start_at", "keep_documents_hours", "visible_to", "protocol", "parser", "hydration_config", "concurrency", "storage")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_TYPE_FIELD_NUMBER: _ClassVar[int]
    MODULE_ID_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    KAFKA_INPUT_TOPIC_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_PATH_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_AT_FIELD_NUMBER: _ClassVar[int]
    DLQ_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PRE_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    POST_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    FILTER_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    SAVE_ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    KAFKA_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_SLOTS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    RETENTION_HOURS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    KEEP_DOCUMENTS_HOURS_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_TO_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PARSER_FIELD_NUMBER: _ClassVar[int]
    HYDRATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    cluster_id: str
    name: str
    node_type: NodeType
    module_id: str
    custom_config: _pipeline_core_types_pb2.ProcessConfiguration
    visibility: ClusterVisibility
    mode: NodeMode
    kafka_input_topic: str
    repository_path: str
    created_at: _timestamp_pb2.Timestamp
    modified_at: _timestamp_pb2.Timestamp
    dlq_config: DlqConfig
    pre_mappings: _containers.RepeatedCompositeFieldContainer[_pipeline_core_types_pb2.ProcessingMapping]
    post_mappings: _containers.RepeatedCompositeFieldContainer[_pipeline_core_types_pb2.ProcessingMapping]
    filter_conditions: _containers.RepeatedScalarFieldContainer[str]
    save_on_error: bool
    kafka_partitions: int
    consumer_slots: int
    engine_address: str
    timeout_s: float
    retention_hours: float
    ordering: str
    start_at: str
    keep_documents_hours: float
    visible_to: _containers.RepeatedScalarFieldContainer[str]
    protocol: str
    parser: bool
    hydration_config: _pipeline_core_types_pb2.HydrationConfig
    concurrency: int
    storage: str
    def __init__(self, node_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., name: _Optional[str] = ..., node_type: _Optional[_Union[NodeType, str]] = ..., module_id: _Optional[str] = ..., custom_config: _Optional[_Union[_pipeline_core_types_pb2.ProcessConfiguration, _Mapping]] = ..., visibility: _Optional[_Union[ClusterVisibility, str]] = ..., mode: _Optional[_Union[NodeMode, str]] = ..., kafka_input_topic: _Optional[str] = ..., repository_path: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., modified_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., dlq_config: _Optional[_Union[DlqConfig, _Mapping]] = ..., pre_mappings: _Optional[_Iterable[_Union[_pipeline_core_types_pb2.ProcessingMapping, _Mapping]]] = ..., post_mappings: _Optional[_Iterable[_Union[_pipeline_core_types_pb2.ProcessingMapping, _Mapping]]] = ..., filter_conditions: _Optional[_Iterable[str]] = ..., save_on_error: _Optional[bool] = ..., kafka_partitions: _Optional[int] = ..., consumer_slots: _Optional[int] = ..., engine_address: _Optional[str] = ..., timeout_s: _Optional[float] = ..., retention_hours: _Optional[float] = ..., ordering: _Optional[str] = ..., start_at: _Optional[str] = ..., keep_documents_hours: _Optional[float] = ..., visible_to: _Optional[_Iterable[str]] = ..., protocol: _Optional[str] = ..., parser: _Optional[bool] = ..., hydration_config: _Optional[_Union[_pipeline_core_types_pb2.HydrationConfig, _Mapping]] = ..., concurrency: _Optional[int] = ..., storage: _Optional[str] = ...) -> None: ...

class DlqConfig(_message.Message):
    __slots__ = ("enabled", "topic_override", "max_retries", "initial_backoff", "max_backoff", "backoff_multiplier", "include_payload", "max_attempts")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    topic_override: str
    max_retries: int
    initial_backoff: _duration_pb2.Duration
    max_backoff: _duration_pb2.Duration
    backoff_multiplier: float
    include_payload: bool
    max_attempts: int
    def __init__(self, enabled: _Optional[bool] = ..., topic_override: _Optional[str] = ..., max_retries: _Optional[int] = ..., initial_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., backoff_multiplier: _Optional[float] = ..., include_payload: _Optional[bool] = ..., max_attempts: _Optional[int] = ...) -> None: ...

class GraphEdge(_message.Message):
    __slots__ = ("edge_id", "from_node_id", "to_node_id", "to_cluster_id", "is_cross_cluster", "condition", "priority", "transport_type", "kafka_topic", "max_hops")
    EDGE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TO_CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    IS_CROSS_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_TYPE_FIELD_NUMBER: _ClassVar[int]
    KAFKA_TOPIC_FIELD_NUMBER: _ClassVar[int]
    MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    edge_id: str
    from_node_id: str
    to_node_id: str
    to_cluster_id: str
    is_cross_cluster: bool
    condition: str
    priority: int
    transport_type: TransportType
    kafka_topic: str
    max_hops: int
    def __init__(self, edge_id: _Optional[str] = ..., from_node_id: _Optional[str] = ..., to_node_id: _Optional[str] = ..., to_cluster_id: _Optional[str] = ..., is_cross_cluster: _Optional[bool] = ..., condition: _Optional[str] = ..., priority: _Optional[int] = ..., transport_type: _Optional[_Union[TransportType, str]] = ..., kafka_topic: _Optional[str] = ..., max_hops: _Optional[int] = ...) -> None: ...

class ModuleDefinition(_message.Message):
    __slots__ = ("module_id", "implementation_name", "grpc_service_name", "config_schema", "default_config", "created_at", "modified_at")
    MODULE_ID_FIELD_NUMBER: _ClassVar[int]
    IMPLEMENTATION_NAME_FIELD_NUMBER: _ClassVar[int]
    GRPC_SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_AT_FIELD_NUMBER: _ClassVar[int]
    module_id: str
    implementation_name: str
    grpc_service_name: str
    config_schema: SchemaReference
    default_config: _struct_pb2.Struct
    created_at: _timestamp_pb2.Timestamp
    modified_at: _timestamp_pb2.Timestamp
    def __init__(self, module_id: _Optional[str] = ..., implementation_name: _Optional[str] = ..., grpc_service_name: _Optional[str] = ..., config_schema: _Optional[_Union[SchemaReference, _Mapping]] = ..., default_config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., modified_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SchemaReference(_message.Message):
    __slots__ = ("subject", "version")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: int
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GraphDatasource(_message.Message):
    __slots__ = ("datasource_id", "account_id", "entry_node_id", "name", "paused", "partitions", "retention_hours", "slots", "schedule", "connector_kind", "connector_options", "start_at", "keep_documents_hours", "hydration_config", "persistence_config", "intake_path", "complete_hours")
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_HOURS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_KIND_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    KEEP_DOCUMENTS_HOURS_FIELD_NUMBER: _ClassVar[int]
    HYDRATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PERSISTENCE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    INTAKE_PATH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_HOURS_FIELD_NUMBER: _ClassVar[int]
    datasource_id: str
    account_id: str
    entry_node_id: str
    name: str
    paused: bool
    partitions: int
    retention_hours: float
    slots: int
    schedule: str
    connector_kind: str
    connector_options: _struct_pb2.Struct
    start_at: str
    keep_documents_hours: float
    hydration_config: _pipeline_core_types_pb2.HydrationConfig
    persistence_config: _pipeline_core_types_pb2.PersistenceConfig
    intake_path: str
    complete_hours: bool
    def __init__(self, datasource_id: _Optional[str] = ..., account_id: _Optional[str] = ..., entry_node_id: _Optional[str] = ..., name: _Optional[str] = ..., paused: _Optional[bool] = ..., partitions: _Optional[int] = ..., retention_hours: _Optional[float] = ..., slots: _Optional[int] = ..., schedule: _Optional[str] = ..., connector_kind: _Optional[str] = ..., connector_options: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., start_at: _Optional[str] = ..., keep_documents_hours: _Optional[float] = ..., hydration_config: _Optional[_Union[_pipeline_core_types_pb2.HydrationConfig, _Mapping]] = ..., persistence_config: _Optional[_Union[_pipeline_core_types_pb2.PersistenceConfig, _Mapping]] = ..., intake_path: _Optional[str] = ..., complete_hours: _Optional[bool] = ...) -> None: ...
