import datetime

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

class CapabilityType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_TYPE_UNSPECIFIED: _ClassVar[CapabilityType]
    CAPABILITY_TYPE_PARSER: _ClassVar[CapabilityType]
    CAPABILITY_TYPE_SINK: _ClassVar[CapabilityType]

class ProcessingOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROCESSING_OUTCOME_UNSPECIFIED: _ClassVar[ProcessingOutcome]
    PROCESSING_OUTCOME_SUCCESS: _ClassVar[ProcessingOutcome]
    PROCESSING_OUTCOME_PARTIAL: _ClassVar[ProcessingOutcome]
    PROCESSING_OUTCOME_FAILURE: _ClassVar[ProcessingOutcome]
    PROCESSING_OUTCOME_SKIPPED: _ClassVar[ProcessingOutcome]
CAPABILITY_TYPE_UNSPECIFIED: CapabilityType
CAPABILITY_TYPE_PARSER: CapabilityType
CAPABILITY_TYPE_SINK: CapabilityType
PROCESSING_OUTCOME_UNSPECIFIED: ProcessingOutcome
PROCESSING_OUTCOME_SUCCESS: ProcessingOutcome
PROCESSING_OUTCOME_PARTIAL: ProcessingOutcome
PROCESSING_OUTCOME_FAILURE: ProcessingOutcome
PROCESSING_OUTCOME_SKIPPED: ProcessingOutcome

class GetServiceRegistrationRequest(_message.Message):
    __slots__ = ("test_request",)
    TEST_REQUEST_FIELD_NUMBER: _ClassVar[int]
    test_request: ProcessDataRequest
    def __init__(self, test_request: _Optional[_Union[ProcessDataRequest, _Mapping]] = ...) -> None: ...

class GetServiceRegistrationResponse(_message.Message):
    __slots__ = ("module_name", "version", "json_config_schema", "display_name", "description", "owner", "documentation_url", "tags", "health_check_passed", "health_check_message", "registration_timestamp", "server_info", "sdk_version", "dependencies", "metadata", "capabilities")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODULE_NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JSON_CONFIG_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTATION_URL_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_PASSED_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SERVER_INFO_FIELD_NUMBER: _ClassVar[int]
    SDK_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    module_name: str
    version: str
    json_config_schema: str
    display_name: str
    description: str
    owner: str
    documentation_url: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    health_check_passed: bool
    health_check_message: str
    registration_timestamp: _timestamp_pb2.Timestamp
    server_info: str
    sdk_version: str
    dependencies: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    capabilities: Capabilities
    def __init__(self, module_name: _Optional[str] = ..., version: _Optional[str] = ..., json_config_schema: _Optional[str] = ..., display_name: _Optional[str] = ..., description: _Optional[str] = ..., owner: _Optional[str] = ..., documentation_url: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., health_check_passed: _Optional[bool] = ..., health_check_message: _Optional[str] = ..., registration_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., server_info: _Optional[str] = ..., sdk_version: _Optional[str] = ..., dependencies: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., capabilities: _Optional[_Union[Capabilities, _Mapping]] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ("types",)
    TYPES_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedScalarFieldContainer[CapabilityType]
    def __init__(self, types: _Optional[_Iterable[_Union[CapabilityType, str]]] = ...) -> None: ...

class ServiceMetadata(_message.Message):
    __slots__ = ("pipeline_name", "pipe_step_name", "stream_id", "current_hop_number", "history", "stream_error_data", "context_params")
    class ContextParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PIPELINE_NAME_FIELD_NUMBER: _ClassVar[int]
    PIPE_STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_HOP_NUMBER_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    STREAM_ERROR_DATA_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PARAMS_FIELD_NUMBER: _ClassVar[int]
    pipeline_name: str
    pipe_step_name: str
    stream_id: str
    current_hop_number: int
    history: _containers.RepeatedCompositeFieldContainer[_pipeline_core_types_pb2.StepExecutionRecord]
    stream_error_data: _pipeline_core_types_pb2.ErrorData
    context_params: _containers.ScalarMap[str, str]
    def __init__(self, pipeline_name: _Optional[str] = ..., pipe_step_name: _Optional[str] = ..., stream_id: _Optional[str] = ..., current_hop_number: _Optional[int] = ..., history: _Optional[_Iterable[_Union[_pipeline_core_types_pb2.StepExecutionRecord, _Mapping]]] = ..., stream_error_data: _Optional[_Union[_pipeline_core_types_pb2.ErrorData, _Mapping]] = ..., context_params: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ProcessDataRequest(_message.Message):
    __slots__ = ("document", "config", "metadata", "post_mappings", "is_test", "dry_run")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    POST_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    IS_TEST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    document: _pipeline_core_types_pb2.PipeDoc
    config: _pipeline_core_types_pb2.ProcessConfiguration
    metadata: ServiceMetadata
    post_mappings: _containers.RepeatedCompositeFieldContainer[_pipeline_core_types_pb2.ProcessingMapping]
    is_test: bool
    dry_run: bool
    def __init__(self, document: _Optional[_Union[_pipeline_core_types_pb2.PipeDoc, _Mapping]] = ..., config: _Optional[_Union[_pipeline_core_types_pb2.ProcessConfiguration, _Mapping]] = ..., metadata: _Optional[_Union[ServiceMetadata, _Mapping]] = ..., post_mappings: _Optional[_Iterable[_Union[_pipeline_core_types_pb2.ProcessingMapping, _Mapping]]] = ..., is_test: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ProcessDataResponse(_message.Message):
    __slots__ = ("output_doc", "error_details", "log_entries", "outcome", "partial_failure_details")
    OUTPUT_DOC_FIELD_NUMBER: _ClassVar[int]
    ERROR_DETAILS_FIELD_NUMBER: _ClassVar[int]
    LOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FAILURE_DETAILS_FIELD_NUMBER: _ClassVar[int]
    output_doc: _pipeline_core_types_pb2.PipeDoc
    error_details: _struct_pb2.Struct
    log_entries: _containers.RepeatedCompositeFieldContainer[_pipeline_core_types_pb2.LogEntry]
    outcome: ProcessingOutcome
    partial_failure_details: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, output_doc: _Optional[_Union[_pipeline_core_types_pb2.PipeDoc, _Mapping]] = ..., error_details: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., log_entries: _Optional[_Iterable[_Union[_pipeline_core_types_pb2.LogEntry, _Mapping]]] = ..., outcome: _Optional[_Union[ProcessingOutcome, str]] = ..., partial_failure_details: _Optional[_Iterable[str]] = ...) -> None: ...
