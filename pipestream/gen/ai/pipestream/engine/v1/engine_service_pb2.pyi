import datetime

from pipestream.gen.ai.pipestream.config.v1 import pipeline_config_models_pb2 as _pipeline_config_models_pb2
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as _pipeline_core_types_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EngineHealth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENGINE_HEALTH_UNSPECIFIED: _ClassVar[EngineHealth]
    ENGINE_HEALTH_HEALTHY: _ClassVar[EngineHealth]
    ENGINE_HEALTH_DEGRADED: _ClassVar[EngineHealth]
    ENGINE_HEALTH_UNHEALTHY: _ClassVar[EngineHealth]
ENGINE_HEALTH_UNSPECIFIED: EngineHealth
ENGINE_HEALTH_HEALTHY: EngineHealth
ENGINE_HEALTH_DEGRADED: EngineHealth
ENGINE_HEALTH_UNHEALTHY: EngineHealth

class ProcessNodeRequest(_message.Message):
    __slots__ = ("stream", "routing_condition", "node_override")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ROUTING_CONDITION_FIELD_NUMBER: _ClassVar[int]
    NODE_OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    stream: _pipeline_core_types_pb2.PipeStream
    routing_condition: str
    node_override: _pipeline_config_models_pb2.GraphNode
    def __init__(self, stream: _Optional[_Union[_pipeline_core_types_pb2.PipeStream, _Mapping]] = ..., routing_condition: _Optional[str] = ..., node_override: _Optional[_Union[_pipeline_config_models_pb2.GraphNode, _Mapping]] = ...) -> None: ...

class ProcessNodeResponse(_message.Message):
    __slots__ = ("success", "error_message", "completed_at", "output_doc", "log_entries", "module_id", "processing_time_ms")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DOC_FIELD_NUMBER: _ClassVar[int]
    LOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MODULE_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    success: bool
    error_message: str
    completed_at: _timestamp_pb2.Timestamp
    output_doc: _pipeline_core_types_pb2.PipeDoc
    log_entries: _containers.RepeatedCompositeFieldContainer[_pipeline_core_types_pb2.LogEntry]
    module_id: str
    processing_time_ms: int
    def __init__(self, success: _Optional[bool] = ..., error_message: _Optional[str] = ..., completed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., output_doc: _Optional[_Union[_pipeline_core_types_pb2.PipeDoc, _Mapping]] = ..., log_entries: _Optional[_Iterable[_Union[_pipeline_core_types_pb2.LogEntry, _Mapping]]] = ..., module_id: _Optional[str] = ..., processing_time_ms: _Optional[int] = ...) -> None: ...

class ProcessStreamRequest(_message.Message):
    __slots__ = ("stream", "routing_condition")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ROUTING_CONDITION_FIELD_NUMBER: _ClassVar[int]
    stream: _pipeline_core_types_pb2.PipeStream
    routing_condition: str
    def __init__(self, stream: _Optional[_Union[_pipeline_core_types_pb2.PipeStream, _Mapping]] = ..., routing_condition: _Optional[str] = ...) -> None: ...

class ProcessStreamResponse(_message.Message):
    __slots__ = ("success", "message", "updated_stream", "metrics")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UPDATED_STREAM_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    updated_stream: _pipeline_core_types_pb2.PipeStream
    metrics: ProcessingMetrics
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., updated_stream: _Optional[_Union[_pipeline_core_types_pb2.PipeStream, _Mapping]] = ..., metrics: _Optional[_Union[ProcessingMetrics, _Mapping]] = ...) -> None: ...

class RouteToClusterRequest(_message.Message):
    __slots__ = ("target_cluster_id", "target_node_id", "stream")
    TARGET_CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    target_cluster_id: str
    target_node_id: str
    stream: _pipeline_core_types_pb2.PipeStream
    def __init__(self, target_cluster_id: _Optional[str] = ..., target_node_id: _Optional[str] = ..., stream: _Optional[_Union[_pipeline_core_types_pb2.PipeStream, _Mapping]] = ...) -> None: ...

class RouteToClusterResponse(_message.Message):
    __slots__ = ("success", "message", "routing_method")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_METHOD_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    routing_method: str
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., routing_method: _Optional[str] = ...) -> None: ...

class ProcessingMetrics(_message.Message):
    __slots__ = ("processing_time_ms", "node_id", "module_id", "cache_hit", "hop_count")
    PROCESSING_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    MODULE_ID_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_FIELD_NUMBER: _ClassVar[int]
    HOP_COUNT_FIELD_NUMBER: _ClassVar[int]
    processing_time_ms: int
    node_id: str
    module_id: str
    cache_hit: bool
    hop_count: int
    def __init__(self, processing_time_ms: _Optional[int] = ..., node_id: _Optional[str] = ..., module_id: _Optional[str] = ..., cache_hit: _Optional[bool] = ..., hop_count: _Optional[int] = ...) -> None: ...

class GetHealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetHealthResponse(_message.Message):
    __slots__ = ("health", "active_streams", "cache_hit_rate", "connected_clusters", "uptime_seconds", "kafka_status")
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_STREAMS_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_RATE_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KAFKA_STATUS_FIELD_NUMBER: _ClassVar[int]
    health: EngineHealth
    active_streams: int
    cache_hit_rate: int
    connected_clusters: _containers.RepeatedScalarFieldContainer[str]
    uptime_seconds: int
    kafka_status: KafkaSubscriptionStatus
    def __init__(self, health: _Optional[_Union[EngineHealth, str]] = ..., active_streams: _Optional[int] = ..., cache_hit_rate: _Optional[int] = ..., connected_clusters: _Optional[_Iterable[str]] = ..., uptime_seconds: _Optional[int] = ..., kafka_status: _Optional[_Union[KafkaSubscriptionStatus, _Mapping]] = ...) -> None: ...

class UpdateTopicSubscriptionsRequest(_message.Message):
    __slots__ = ("engine_instance_id", "topics_to_subscribe", "topics_to_unsubscribe")
    ENGINE_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_TO_SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_TO_UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    engine_instance_id: str
    topics_to_subscribe: _containers.RepeatedScalarFieldContainer[str]
    topics_to_unsubscribe: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, engine_instance_id: _Optional[str] = ..., topics_to_subscribe: _Optional[_Iterable[str]] = ..., topics_to_unsubscribe: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateTopicSubscriptionsResponse(_message.Message):
    __slots__ = ("success", "message", "active_subscriptions", "total_listeners")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LISTENERS_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    active_subscriptions: _containers.RepeatedScalarFieldContainer[str]
    total_listeners: int
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., active_subscriptions: _Optional[_Iterable[str]] = ..., total_listeners: _Optional[int] = ...) -> None: ...

class GetTopicSubscriptionsRequest(_message.Message):
    __slots__ = ("engine_instance_id",)
    ENGINE_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    engine_instance_id: str
    def __init__(self, engine_instance_id: _Optional[str] = ...) -> None: ...

class GetTopicSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[EngineTopicSubscription]
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[EngineTopicSubscription, _Mapping]]] = ...) -> None: ...

class EngineTopicSubscription(_message.Message):
    __slots__ = ("engine_instance_id", "subscribed_topics", "active_listeners", "messages_processed", "cpu_usage_percent", "memory_usage_percent")
    ENGINE_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_LISTENERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_PROCESSED_FIELD_NUMBER: _ClassVar[int]
    CPU_USAGE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USAGE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    engine_instance_id: str
    subscribed_topics: _containers.RepeatedScalarFieldContainer[str]
    active_listeners: int
    messages_processed: int
    cpu_usage_percent: float
    memory_usage_percent: float
    def __init__(self, engine_instance_id: _Optional[str] = ..., subscribed_topics: _Optional[_Iterable[str]] = ..., active_listeners: _Optional[int] = ..., messages_processed: _Optional[int] = ..., cpu_usage_percent: _Optional[float] = ..., memory_usage_percent: _Optional[float] = ...) -> None: ...

class KafkaSubscriptionStatus(_message.Message):
    __slots__ = ("active_listeners", "subscribed_topics", "total_messages_processed", "average_processing_time_ms")
    ACTIVE_LISTENERS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MESSAGES_PROCESSED_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_PROCESSING_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    active_listeners: int
    subscribed_topics: _containers.RepeatedScalarFieldContainer[str]
    total_messages_processed: int
    average_processing_time_ms: float
    def __init__(self, active_listeners: _Optional[int] = ..., subscribed_topics: _Optional[_Iterable[str]] = ..., total_messages_processed: _Optional[int] = ..., average_processing_time_ms: _Optional[float] = ...) -> None: ...

class IntakeHandoffRequest(_message.Message):
    __slots__ = ("stream", "datasource_id", "account_id", "target_entry_node_id", "priority", "doc_stored_in_repo")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_ENTRY_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DOC_STORED_IN_REPO_FIELD_NUMBER: _ClassVar[int]
    stream: _pipeline_core_types_pb2.PipeStream
    datasource_id: str
    account_id: str
    target_entry_node_id: str
    priority: int
    doc_stored_in_repo: bool
    def __init__(self, stream: _Optional[_Union[_pipeline_core_types_pb2.PipeStream, _Mapping]] = ..., datasource_id: _Optional[str] = ..., account_id: _Optional[str] = ..., target_entry_node_id: _Optional[str] = ..., priority: _Optional[int] = ..., doc_stored_in_repo: _Optional[bool] = ...) -> None: ...

class IntakeHandoffResponse(_message.Message):
    __slots__ = ("accepted", "message", "assigned_stream_id", "entry_node_id", "queue_depth")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_DEPTH_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    message: str
    assigned_stream_id: str
    entry_node_id: str
    queue_depth: int
    def __init__(self, accepted: _Optional[bool] = ..., message: _Optional[str] = ..., assigned_stream_id: _Optional[str] = ..., entry_node_id: _Optional[str] = ..., queue_depth: _Optional[int] = ...) -> None: ...

class IntakeHandoffStreamRequest(_message.Message):
    __slots__ = ("handoff_id", "sequence", "request")
    HANDOFF_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    handoff_id: str
    sequence: int
    request: IntakeHandoffRequest
    def __init__(self, handoff_id: _Optional[str] = ..., sequence: _Optional[int] = ..., request: _Optional[_Union[IntakeHandoffRequest, _Mapping]] = ...) -> None: ...

class IntakeHandoffStreamResponse(_message.Message):
    __slots__ = ("handoff_id", "sequence", "status", "response", "acked_at")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[IntakeHandoffStreamResponse.Status]
        STATUS_ACCEPTED: _ClassVar[IntakeHandoffStreamResponse.Status]
        STATUS_RETRYABLE_REJECTED: _ClassVar[IntakeHandoffStreamResponse.Status]
        STATUS_PERMANENT_REJECTED: _ClassVar[IntakeHandoffStreamResponse.Status]
    STATUS_UNSPECIFIED: IntakeHandoffStreamResponse.Status
    STATUS_ACCEPTED: IntakeHandoffStreamResponse.Status
    STATUS_RETRYABLE_REJECTED: IntakeHandoffStreamResponse.Status
    STATUS_PERMANENT_REJECTED: IntakeHandoffStreamResponse.Status
    HANDOFF_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ACKED_AT_FIELD_NUMBER: _ClassVar[int]
    handoff_id: str
    sequence: int
    status: IntakeHandoffStreamResponse.Status
    response: IntakeHandoffResponse
    acked_at: _timestamp_pb2.Timestamp
    def __init__(self, handoff_id: _Optional[str] = ..., sequence: _Optional[int] = ..., status: _Optional[_Union[IntakeHandoffStreamResponse.Status, str]] = ..., response: _Optional[_Union[IntakeHandoffResponse, _Mapping]] = ..., acked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetDatasourceInstanceRequest(_message.Message):
    __slots__ = ("datasource_id",)
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    datasource_id: str
    def __init__(self, datasource_id: _Optional[str] = ...) -> None: ...

class GetDatasourceInstanceResponse(_message.Message):
    __slots__ = ("found", "instance", "message")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    found: bool
    instance: DatasourceInstance
    message: str
    def __init__(self, found: _Optional[bool] = ..., instance: _Optional[_Union[DatasourceInstance, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class DatasourceInstance(_message.Message):
    __slots__ = ("datasource_instance_id", "datasource_id", "entry_node_id", "node_config", "graph_id", "graph_version")
    class NodeConfig(_message.Message):
        __slots__ = ("persistence_config", "retention_config", "hydration_config", "output_hints", "custom_config")
        PERSISTENCE_CONFIG_FIELD_NUMBER: _ClassVar[int]
        RETENTION_CONFIG_FIELD_NUMBER: _ClassVar[int]
        HYDRATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_HINTS_FIELD_NUMBER: _ClassVar[int]
        CUSTOM_CONFIG_FIELD_NUMBER: _ClassVar[int]
        persistence_config: _pipeline_core_types_pb2.PersistenceConfig
        retention_config: _pipeline_core_types_pb2.RetentionConfig
        hydration_config: _pipeline_core_types_pb2.HydrationConfig
        output_hints: _pipeline_core_types_pb2.OutputHints
        custom_config: _struct_pb2.Struct
        def __init__(self, persistence_config: _Optional[_Union[_pipeline_core_types_pb2.PersistenceConfig, _Mapping]] = ..., retention_config: _Optional[_Union[_pipeline_core_types_pb2.RetentionConfig, _Mapping]] = ..., hydration_config: _Optional[_Union[_pipeline_core_types_pb2.HydrationConfig, _Mapping]] = ..., output_hints: _Optional[_Union[_pipeline_core_types_pb2.OutputHints, _Mapping]] = ..., custom_config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
    DATASOURCE_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    GRAPH_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    datasource_instance_id: str
    datasource_id: str
    entry_node_id: str
    node_config: DatasourceInstance.NodeConfig
    graph_id: str
    graph_version: int
    def __init__(self, datasource_instance_id: _Optional[str] = ..., datasource_id: _Optional[str] = ..., entry_node_id: _Optional[str] = ..., node_config: _Optional[_Union[DatasourceInstance.NodeConfig, _Mapping]] = ..., graph_id: _Optional[str] = ..., graph_version: _Optional[int] = ...) -> None: ...
