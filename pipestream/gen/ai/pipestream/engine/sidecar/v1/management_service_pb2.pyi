from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetLeasesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLeasesResponse(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseInfo]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseInfo, _Mapping]]] = ...) -> None: ...

class LeaseInfo(_message.Message):
    __slots__ = ("topic", "type", "current_offset", "status", "retry_count", "cluster_id", "consumer_group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    type: str
    current_offset: int
    status: str
    retry_count: int
    cluster_id: str
    consumer_group: str
    def __init__(self, topic: _Optional[str] = ..., type: _Optional[str] = ..., current_offset: _Optional[int] = ..., status: _Optional[str] = ..., retry_count: _Optional[int] = ..., cluster_id: _Optional[str] = ..., consumer_group: _Optional[str] = ...) -> None: ...

class PauseConsumptionRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class PauseConsumptionResponse(_message.Message):
    __slots__ = ("success", "message")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class ResumeConsumptionRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class ResumeConsumptionResponse(_message.Message):
    __slots__ = ("success", "message")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class GetConsumerConfigRequest(_message.Message):
    __slots__ = ("cluster_id",)
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    def __init__(self, cluster_id: _Optional[str] = ...) -> None: ...

class GetConsumerConfigResponse(_message.Message):
    __slots__ = ("configs",)
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    configs: _containers.RepeatedCompositeFieldContainer[GraphConsumerConfig]
    def __init__(self, configs: _Optional[_Iterable[_Union[GraphConsumerConfig, _Mapping]]] = ...) -> None: ...

class GraphConsumerConfig(_message.Message):
    __slots__ = ("cluster_id", "consumer_group", "max_poll_records", "topics", "in_flight_count")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_POLL_RECORDS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_COUNT_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    consumer_group: str
    max_poll_records: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    in_flight_count: int
    def __init__(self, cluster_id: _Optional[str] = ..., consumer_group: _Optional[str] = ..., max_poll_records: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., in_flight_count: _Optional[int] = ...) -> None: ...

class SetConsumerConfigRequest(_message.Message):
    __slots__ = ("cluster_id", "max_poll_records")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_POLL_RECORDS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    max_poll_records: int
    def __init__(self, cluster_id: _Optional[str] = ..., max_poll_records: _Optional[int] = ...) -> None: ...

class SetConsumerConfigResponse(_message.Message):
    __slots__ = ("success", "message", "applied_config")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    APPLIED_CONFIG_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    applied_config: GraphConsumerConfig
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., applied_config: _Optional[_Union[GraphConsumerConfig, _Mapping]] = ...) -> None: ...
