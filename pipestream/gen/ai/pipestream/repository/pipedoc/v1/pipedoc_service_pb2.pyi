from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as _pipeline_core_types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeletePipeDocOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELETE_PIPE_DOC_OUTCOME_UNSPECIFIED: _ClassVar[DeletePipeDocOutcome]
    DELETE_PIPE_DOC_OUTCOME_REMOVED: _ClassVar[DeletePipeDocOutcome]
    DELETE_PIPE_DOC_OUTCOME_NOTHING_TO_REMOVE: _ClassVar[DeletePipeDocOutcome]
DELETE_PIPE_DOC_OUTCOME_UNSPECIFIED: DeletePipeDocOutcome
DELETE_PIPE_DOC_OUTCOME_REMOVED: DeletePipeDocOutcome
DELETE_PIPE_DOC_OUTCOME_NOTHING_TO_REMOVE: DeletePipeDocOutcome

class SavePipeDocRequest(_message.Message):
    __slots__ = ("pipedoc", "drive", "connector_id", "use_datasource_id", "graph_location_id", "metadata", "cluster_id", "graph_id")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PIPEDOC_FIELD_NUMBER: _ClassVar[int]
    DRIVE_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    USE_DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_LOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_ID_FIELD_NUMBER: _ClassVar[int]
    pipedoc: _pipeline_core_types_pb2.PipeDoc
    drive: str
    connector_id: str
    use_datasource_id: bool
    graph_location_id: str
    metadata: _containers.ScalarMap[str, str]
    cluster_id: str
    graph_id: str
    def __init__(self, pipedoc: _Optional[_Union[_pipeline_core_types_pb2.PipeDoc, _Mapping]] = ..., drive: _Optional[str] = ..., connector_id: _Optional[str] = ..., use_datasource_id: _Optional[bool] = ..., graph_location_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., cluster_id: _Optional[str] = ..., graph_id: _Optional[str] = ...) -> None: ...

class SavePipeDocResponse(_message.Message):
    __slots__ = ("node_id", "drive", "s3_key", "size_bytes", "checksum", "created_at_epoch_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DRIVE_FIELD_NUMBER: _ClassVar[int]
    S3_KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    drive: str
    s3_key: str
    size_bytes: int
    checksum: str
    created_at_epoch_ms: int
    def __init__(self, node_id: _Optional[str] = ..., drive: _Optional[str] = ..., s3_key: _Optional[str] = ..., size_bytes: _Optional[int] = ..., checksum: _Optional[str] = ..., created_at_epoch_ms: _Optional[int] = ...) -> None: ...

class GetPipeDocRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class GetPipeDocByReferenceRequest(_message.Message):
    __slots__ = ("document_ref",)
    DOCUMENT_REF_FIELD_NUMBER: _ClassVar[int]
    document_ref: _pipeline_core_types_pb2.DocumentReference
    def __init__(self, document_ref: _Optional[_Union[_pipeline_core_types_pb2.DocumentReference, _Mapping]] = ...) -> None: ...

class GetPipeDocByReferenceResponse(_message.Message):
    __slots__ = ("pipedoc", "node_id", "drive", "size_bytes", "retrieved_at_epoch_ms")
    PIPEDOC_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DRIVE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    RETRIEVED_AT_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    pipedoc: _pipeline_core_types_pb2.PipeDoc
    node_id: str
    drive: str
    size_bytes: int
    retrieved_at_epoch_ms: int
    def __init__(self, pipedoc: _Optional[_Union[_pipeline_core_types_pb2.PipeDoc, _Mapping]] = ..., node_id: _Optional[str] = ..., drive: _Optional[str] = ..., size_bytes: _Optional[int] = ..., retrieved_at_epoch_ms: _Optional[int] = ...) -> None: ...

class GetPipeDocResponse(_message.Message):
    __slots__ = ("pipedoc", "node_id", "drive", "size_bytes", "retrieved_at_epoch_ms")
    PIPEDOC_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DRIVE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    RETRIEVED_AT_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    pipedoc: _pipeline_core_types_pb2.PipeDoc
    node_id: str
    drive: str
    size_bytes: int
    retrieved_at_epoch_ms: int
    def __init__(self, pipedoc: _Optional[_Union[_pipeline_core_types_pb2.PipeDoc, _Mapping]] = ..., node_id: _Optional[str] = ..., drive: _Optional[str] = ..., size_bytes: _Optional[int] = ..., retrieved_at_epoch_ms: _Optional[int] = ...) -> None: ...

class ListPipeDocsRequest(_message.Message):
    __slots__ = ("drive", "connector_id", "limit", "continuation_token")
    DRIVE_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    drive: str
    connector_id: str
    limit: int
    continuation_token: str
    def __init__(self, drive: _Optional[str] = ..., connector_id: _Optional[str] = ..., limit: _Optional[int] = ..., continuation_token: _Optional[str] = ...) -> None: ...

class DeleteLogicalDocumentCommand(_message.Message):
    __slots__ = ("doc_id", "account_id", "datasource_id")
    DOC_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    doc_id: str
    account_id: str
    datasource_id: str
    def __init__(self, doc_id: _Optional[str] = ..., account_id: _Optional[str] = ..., datasource_id: _Optional[str] = ...) -> None: ...

class RemovedPipeDocNode(_message.Message):
    __slots__ = ("node_id", "detail")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    detail: str
    def __init__(self, node_id: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class DeletePipeDocRequest(_message.Message):
    __slots__ = ("logical_document", "purge_storage", "omit_removed_nodes")
    LOGICAL_DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    PURGE_STORAGE_FIELD_NUMBER: _ClassVar[int]
    OMIT_REMOVED_NODES_FIELD_NUMBER: _ClassVar[int]
    logical_document: DeleteLogicalDocumentCommand
    purge_storage: bool
    omit_removed_nodes: bool
    def __init__(self, logical_document: _Optional[_Union[DeleteLogicalDocumentCommand, _Mapping]] = ..., purge_storage: _Optional[bool] = ..., omit_removed_nodes: _Optional[bool] = ...) -> None: ...

class DeletePipeDocResponse(_message.Message):
    __slots__ = ("outcome", "pipedocs_removed", "removed_nodes", "message")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PIPEDOCS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_NODES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    outcome: DeletePipeDocOutcome
    pipedocs_removed: int
    removed_nodes: _containers.RepeatedCompositeFieldContainer[RemovedPipeDocNode]
    message: str
    def __init__(self, outcome: _Optional[_Union[DeletePipeDocOutcome, str]] = ..., pipedocs_removed: _Optional[int] = ..., removed_nodes: _Optional[_Iterable[_Union[RemovedPipeDocNode, _Mapping]]] = ..., message: _Optional[str] = ...) -> None: ...

class ListPipeDocsResponse(_message.Message):
    __slots__ = ("pipedocs", "next_continuation_token", "total_count")
    PIPEDOCS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    pipedocs: _containers.RepeatedCompositeFieldContainer[PipeDocMetadata]
    next_continuation_token: str
    total_count: int
    def __init__(self, pipedocs: _Optional[_Iterable[_Union[PipeDocMetadata, _Mapping]]] = ..., next_continuation_token: _Optional[str] = ..., total_count: _Optional[int] = ...) -> None: ...

class GetBlobRequest(_message.Message):
    __slots__ = ("storage_ref",)
    STORAGE_REF_FIELD_NUMBER: _ClassVar[int]
    storage_ref: _pipeline_core_types_pb2.FileStorageReference
    def __init__(self, storage_ref: _Optional[_Union[_pipeline_core_types_pb2.FileStorageReference, _Mapping]] = ...) -> None: ...

class GetBlobResponse(_message.Message):
    __slots__ = ("data", "size_bytes", "mime_type", "retrieved_at_epoch_ms")
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    RETRIEVED_AT_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    size_bytes: int
    mime_type: str
    retrieved_at_epoch_ms: int
    def __init__(self, data: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., mime_type: _Optional[str] = ..., retrieved_at_epoch_ms: _Optional[int] = ...) -> None: ...

class PipeDocMetadata(_message.Message):
    __slots__ = ("node_id", "doc_id", "drive", "connector_id", "size_bytes", "created_at_epoch_ms", "metadata", "title", "document_type")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DOC_ID_FIELD_NUMBER: _ClassVar[int]
    DRIVE_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    doc_id: str
    drive: str
    connector_id: str
    size_bytes: int
    created_at_epoch_ms: int
    metadata: _containers.ScalarMap[str, str]
    title: str
    document_type: str
    def __init__(self, node_id: _Optional[str] = ..., doc_id: _Optional[str] = ..., drive: _Optional[str] = ..., connector_id: _Optional[str] = ..., size_bytes: _Optional[int] = ..., created_at_epoch_ms: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ..., title: _Optional[str] = ..., document_type: _Optional[str] = ...) -> None: ...
