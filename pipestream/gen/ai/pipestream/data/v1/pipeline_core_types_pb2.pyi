import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DocIdDerivationMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DOC_ID_DERIVATION_METHOD_UNSPECIFIED: _ClassVar[DocIdDerivationMethod]
    DOC_ID_DERIVATION_METHOD_CLIENT_PROVIDED: _ClassVar[DocIdDerivationMethod]
    DOC_ID_DERIVATION_METHOD_SOURCE_DOC_ID: _ClassVar[DocIdDerivationMethod]
    DOC_ID_DERIVATION_METHOD_SOURCE_URI: _ClassVar[DocIdDerivationMethod]
    DOC_ID_DERIVATION_METHOD_SOURCE_PATH: _ClassVar[DocIdDerivationMethod]
    DOC_ID_DERIVATION_METHOD_SERVER_GENERATED: _ClassVar[DocIdDerivationMethod]

class ChecksumType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECKSUM_TYPE_UNSPECIFIED: _ClassVar[ChecksumType]
    CHECKSUM_TYPE_MD5: _ClassVar[ChecksumType]
    CHECKSUM_TYPE_SHA1: _ClassVar[ChecksumType]
    CHECKSUM_TYPE_SHA256: _ClassVar[ChecksumType]
    CHECKSUM_TYPE_SHA512: _ClassVar[ChecksumType]

class IngressMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INGRESS_MODE_UNSPECIFIED: _ClassVar[IngressMode]
    INGRESS_MODE_HTTP_STAGED: _ClassVar[IngressMode]
    INGRESS_MODE_GRPC_INLINE: _ClassVar[IngressMode]

class Intent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTENT_UNSPECIFIED: _ClassVar[Intent]
    INTENT_ADD: _ClassVar[Intent]
    INTENT_UPDATE: _ClassVar[Intent]

class MappingType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MAPPING_TYPE_UNSPECIFIED: _ClassVar[MappingType]
    MAPPING_TYPE_DIRECT: _ClassVar[MappingType]
    MAPPING_TYPE_TRANSFORM: _ClassVar[MappingType]
    MAPPING_TYPE_AGGREGATE: _ClassVar[MappingType]
    MAPPING_TYPE_SPLIT: _ClassVar[MappingType]
    MAPPING_TYPE_CEL: _ClassVar[MappingType]

class LogEntrySource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_ENTRY_SOURCE_UNSPECIFIED: _ClassVar[LogEntrySource]
    LOG_ENTRY_SOURCE_ENGINE: _ClassVar[LogEntrySource]
    LOG_ENTRY_SOURCE_MODULE: _ClassVar[LogEntrySource]

class LogLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_LEVEL_UNSPECIFIED: _ClassVar[LogLevel]
    LOG_LEVEL_INFO: _ClassVar[LogLevel]
    LOG_LEVEL_WARN: _ClassVar[LogLevel]
    LOG_LEVEL_ERROR: _ClassVar[LogLevel]
    LOG_LEVEL_DEBUG: _ClassVar[LogLevel]
DOC_ID_DERIVATION_METHOD_UNSPECIFIED: DocIdDerivationMethod
DOC_ID_DERIVATION_METHOD_CLIENT_PROVIDED: DocIdDerivationMethod
DOC_ID_DERIVATION_METHOD_SOURCE_DOC_ID: DocIdDerivationMethod
DOC_ID_DERIVATION_METHOD_SOURCE_URI: DocIdDerivationMethod
DOC_ID_DERIVATION_METHOD_SOURCE_PATH: DocIdDerivationMethod
DOC_ID_DERIVATION_METHOD_SERVER_GENERATED: DocIdDerivationMethod
CHECKSUM_TYPE_UNSPECIFIED: ChecksumType
CHECKSUM_TYPE_MD5: ChecksumType
CHECKSUM_TYPE_SHA1: ChecksumType
CHECKSUM_TYPE_SHA256: ChecksumType
CHECKSUM_TYPE_SHA512: ChecksumType
INGRESS_MODE_UNSPECIFIED: IngressMode
INGRESS_MODE_HTTP_STAGED: IngressMode
INGRESS_MODE_GRPC_INLINE: IngressMode
INTENT_UNSPECIFIED: Intent
INTENT_ADD: Intent
INTENT_UPDATE: Intent
MAPPING_TYPE_UNSPECIFIED: MappingType
MAPPING_TYPE_DIRECT: MappingType
MAPPING_TYPE_TRANSFORM: MappingType
MAPPING_TYPE_AGGREGATE: MappingType
MAPPING_TYPE_SPLIT: MappingType
MAPPING_TYPE_CEL: MappingType
LOG_ENTRY_SOURCE_UNSPECIFIED: LogEntrySource
LOG_ENTRY_SOURCE_ENGINE: LogEntrySource
LOG_ENTRY_SOURCE_MODULE: LogEntrySource
LOG_LEVEL_UNSPECIFIED: LogLevel
LOG_LEVEL_INFO: LogLevel
LOG_LEVEL_WARN: LogLevel
LOG_LEVEL_ERROR: LogLevel
LOG_LEVEL_DEBUG: LogLevel

class DocIdDerivation(_message.Message):
    __slots__ = ("method", "input", "canonical_input")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_INPUT_FIELD_NUMBER: _ClassVar[int]
    method: DocIdDerivationMethod
    input: str
    canonical_input: str
    def __init__(self, method: _Optional[_Union[DocIdDerivationMethod, str]] = ..., input: _Optional[str] = ..., canonical_input: _Optional[str] = ...) -> None: ...

class OwnershipContext(_message.Message):
    __slots__ = ("account_id", "datasource_id", "connector_id", "acls")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    datasource_id: str
    connector_id: str
    acls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, account_id: _Optional[str] = ..., datasource_id: _Optional[str] = ..., connector_id: _Optional[str] = ..., acls: _Optional[_Iterable[str]] = ...) -> None: ...

class PipeDoc(_message.Message):
    __slots__ = ("doc_id", "search_metadata", "blob_bag", "structured_data", "parsed_metadata", "ownership", "doc_id_derivation")
    class ParsedMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ParsedMetadata
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ParsedMetadata, _Mapping]] = ...) -> None: ...
    DOC_ID_FIELD_NUMBER: _ClassVar[int]
    SEARCH_METADATA_FIELD_NUMBER: _ClassVar[int]
    BLOB_BAG_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_DATA_FIELD_NUMBER: _ClassVar[int]
    PARSED_METADATA_FIELD_NUMBER: _ClassVar[int]
    OWNERSHIP_FIELD_NUMBER: _ClassVar[int]
    DOC_ID_DERIVATION_FIELD_NUMBER: _ClassVar[int]
    doc_id: str
    search_metadata: SearchMetadata
    blob_bag: BlobBag
    structured_data: _any_pb2.Any
    parsed_metadata: _containers.MessageMap[str, ParsedMetadata]
    ownership: OwnershipContext
    doc_id_derivation: DocIdDerivation
    def __init__(self, doc_id: _Optional[str] = ..., search_metadata: _Optional[_Union[SearchMetadata, _Mapping]] = ..., blob_bag: _Optional[_Union[BlobBag, _Mapping]] = ..., structured_data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., parsed_metadata: _Optional[_Mapping[str, ParsedMetadata]] = ..., ownership: _Optional[_Union[OwnershipContext, _Mapping]] = ..., doc_id_derivation: _Optional[_Union[DocIdDerivation, _Mapping]] = ...) -> None: ...

class ParsedMetadata(_message.Message):
    __slots__ = ("parser_name", "parser_version", "parsed_at", "data")
    PARSER_NAME_FIELD_NUMBER: _ClassVar[int]
    PARSER_VERSION_FIELD_NUMBER: _ClassVar[int]
    PARSED_AT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    parser_name: str
    parser_version: str
    parsed_at: _timestamp_pb2.Timestamp
    data: _any_pb2.Any
    def __init__(self, parser_name: _Optional[str] = ..., parser_version: _Optional[str] = ..., parsed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class SearchMetadata(_message.Message):
    __slots__ = ("title", "body", "keywords", "document_type", "source_uri", "mime_type", "creation_date", "last_modified_date", "processed_date", "language", "author", "category", "tags", "content_length", "relevance_score", "custom_fields", "metadata", "doi", "source_path", "source_path_segments", "source_slug")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TITLE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    CREATION_DATE_FIELD_NUMBER: _ClassVar[int]
    LAST_MODIFIED_DATE_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_DATE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_SCORE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DOI_FIELD_NUMBER: _ClassVar[int]
    SOURCE_PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_PATH_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SLUG_FIELD_NUMBER: _ClassVar[int]
    title: str
    body: str
    keywords: Keywords
    document_type: str
    source_uri: str
    mime_type: str
    creation_date: _timestamp_pb2.Timestamp
    last_modified_date: _timestamp_pb2.Timestamp
    processed_date: _timestamp_pb2.Timestamp
    language: str
    author: str
    category: str
    tags: Tags
    content_length: int
    relevance_score: float
    custom_fields: _struct_pb2.Struct
    metadata: _containers.ScalarMap[str, str]
    doi: str
    source_path: str
    source_path_segments: _containers.RepeatedScalarFieldContainer[str]
    source_slug: str
    def __init__(self, title: _Optional[str] = ..., body: _Optional[str] = ..., keywords: _Optional[_Union[Keywords, _Mapping]] = ..., document_type: _Optional[str] = ..., source_uri: _Optional[str] = ..., mime_type: _Optional[str] = ..., creation_date: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_modified_date: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., processed_date: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., language: _Optional[str] = ..., author: _Optional[str] = ..., category: _Optional[str] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., content_length: _Optional[int] = ..., relevance_score: _Optional[float] = ..., custom_fields: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., doi: _Optional[str] = ..., source_path: _Optional[str] = ..., source_path_segments: _Optional[_Iterable[str]] = ..., source_slug: _Optional[str] = ...) -> None: ...

class Keywords(_message.Message):
    __slots__ = ("keyword",)
    KEYWORD_FIELD_NUMBER: _ClassVar[int]
    keyword: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keyword: _Optional[_Iterable[str]] = ...) -> None: ...

class Tags(_message.Message):
    __slots__ = ("tag_data",)
    class TagDataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TAG_DATA_FIELD_NUMBER: _ClassVar[int]
    tag_data: _containers.ScalarMap[str, str]
    def __init__(self, tag_data: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BlobBag(_message.Message):
    __slots__ = ("blob", "blobs")
    BLOB_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    blob: Blob
    blobs: Blobs
    def __init__(self, blob: _Optional[_Union[Blob, _Mapping]] = ..., blobs: _Optional[_Union[Blobs, _Mapping]] = ...) -> None: ...

class Blobs(_message.Message):
    __slots__ = ("blob",)
    BLOB_FIELD_NUMBER: _ClassVar[int]
    blob: _containers.RepeatedCompositeFieldContainer[Blob]
    def __init__(self, blob: _Optional[_Iterable[_Union[Blob, _Mapping]]] = ...) -> None: ...

class FileStorageReference(_message.Message):
    __slots__ = ("drive_name", "object_key", "version_id")
    DRIVE_NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECT_KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_ID_FIELD_NUMBER: _ClassVar[int]
    drive_name: str
    object_key: str
    version_id: str
    def __init__(self, drive_name: _Optional[str] = ..., object_key: _Optional[str] = ..., version_id: _Optional[str] = ...) -> None: ...

class Blob(_message.Message):
    __slots__ = ("blob_id", "drive_id", "data", "storage_ref", "mime_type", "filename", "encoding", "size_bytes", "checksum", "checksum_type", "metadata")
    BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    DRIVE_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    STORAGE_REF_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    blob_id: str
    drive_id: str
    data: bytes
    storage_ref: FileStorageReference
    mime_type: str
    filename: str
    encoding: str
    size_bytes: int
    checksum: str
    checksum_type: ChecksumType
    metadata: _struct_pb2.Struct
    def __init__(self, blob_id: _Optional[str] = ..., drive_id: _Optional[str] = ..., data: _Optional[bytes] = ..., storage_ref: _Optional[_Union[FileStorageReference, _Mapping]] = ..., mime_type: _Optional[str] = ..., filename: _Optional[str] = ..., encoding: _Optional[str] = ..., size_bytes: _Optional[int] = ..., checksum: _Optional[str] = ..., checksum_type: _Optional[_Union[ChecksumType, str]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class HydrationConfig(_message.Message):
    __slots__ = ("default_hydration_policy", "drop_blobs_after_parse", "keep_blobs_as_ref", "max_inline_blob_size_bytes", "allow_inline_blobs_for_parser_chains")
    class HydrationPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        HYDRATION_POLICY_UNSPECIFIED: _ClassVar[HydrationConfig.HydrationPolicy]
        HYDRATION_POLICY_ALWAYS_INLINE: _ClassVar[HydrationConfig.HydrationPolicy]
        HYDRATION_POLICY_ALWAYS_REF: _ClassVar[HydrationConfig.HydrationPolicy]
        HYDRATION_POLICY_AUTO: _ClassVar[HydrationConfig.HydrationPolicy]
        HYDRATION_POLICY_ON_DEMAND: _ClassVar[HydrationConfig.HydrationPolicy]
    HYDRATION_POLICY_UNSPECIFIED: HydrationConfig.HydrationPolicy
    HYDRATION_POLICY_ALWAYS_INLINE: HydrationConfig.HydrationPolicy
    HYDRATION_POLICY_ALWAYS_REF: HydrationConfig.HydrationPolicy
    HYDRATION_POLICY_AUTO: HydrationConfig.HydrationPolicy
    HYDRATION_POLICY_ON_DEMAND: HydrationConfig.HydrationPolicy
    DEFAULT_HYDRATION_POLICY_FIELD_NUMBER: _ClassVar[int]
    DROP_BLOBS_AFTER_PARSE_FIELD_NUMBER: _ClassVar[int]
    KEEP_BLOBS_AS_REF_FIELD_NUMBER: _ClassVar[int]
    MAX_INLINE_BLOB_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALLOW_INLINE_BLOBS_FOR_PARSER_CHAINS_FIELD_NUMBER: _ClassVar[int]
    default_hydration_policy: HydrationConfig.HydrationPolicy
    drop_blobs_after_parse: bool
    keep_blobs_as_ref: bool
    max_inline_blob_size_bytes: int
    allow_inline_blobs_for_parser_chains: bool
    def __init__(self, default_hydration_policy: _Optional[_Union[HydrationConfig.HydrationPolicy, str]] = ..., drop_blobs_after_parse: _Optional[bool] = ..., keep_blobs_as_ref: _Optional[bool] = ..., max_inline_blob_size_bytes: _Optional[int] = ..., allow_inline_blobs_for_parser_chains: _Optional[bool] = ...) -> None: ...

class PersistenceConfig(_message.Message):
    __slots__ = ("persist_pipedoc", "max_inline_size_bytes")
    PERSIST_PIPEDOC_FIELD_NUMBER: _ClassVar[int]
    MAX_INLINE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    persist_pipedoc: bool
    max_inline_size_bytes: int
    def __init__(self, persist_pipedoc: _Optional[bool] = ..., max_inline_size_bytes: _Optional[int] = ...) -> None: ...

class RetentionConfig(_message.Message):
    __slots__ = ("policy", "retention_days", "max_versions")
    class RetentionPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RETENTION_POLICY_UNSPECIFIED: _ClassVar[RetentionConfig.RetentionPolicy]
        RETENTION_POLICY_INDEFINITE: _ClassVar[RetentionConfig.RetentionPolicy]
        RETENTION_POLICY_TIME_BASED: _ClassVar[RetentionConfig.RetentionPolicy]
        RETENTION_POLICY_VERSION_BASED: _ClassVar[RetentionConfig.RetentionPolicy]
        RETENTION_POLICY_NO_RETENTION: _ClassVar[RetentionConfig.RetentionPolicy]
    RETENTION_POLICY_UNSPECIFIED: RetentionConfig.RetentionPolicy
    RETENTION_POLICY_INDEFINITE: RetentionConfig.RetentionPolicy
    RETENTION_POLICY_TIME_BASED: RetentionConfig.RetentionPolicy
    RETENTION_POLICY_VERSION_BASED: RetentionConfig.RetentionPolicy
    RETENTION_POLICY_NO_RETENTION: RetentionConfig.RetentionPolicy
    POLICY_FIELD_NUMBER: _ClassVar[int]
    RETENTION_DAYS_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    policy: RetentionConfig.RetentionPolicy
    retention_days: int
    max_versions: int
    def __init__(self, policy: _Optional[_Union[RetentionConfig.RetentionPolicy, str]] = ..., retention_days: _Optional[int] = ..., max_versions: _Optional[int] = ...) -> None: ...

class OutputHints(_message.Message):
    __slots__ = ("desired_collection", "routing_hints")
    class RoutingHintsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DESIRED_COLLECTION_FIELD_NUMBER: _ClassVar[int]
    ROUTING_HINTS_FIELD_NUMBER: _ClassVar[int]
    desired_collection: str
    routing_hints: _containers.ScalarMap[str, str]
    def __init__(self, desired_collection: _Optional[str] = ..., routing_hints: _Optional[_Mapping[str, str]] = ...) -> None: ...

class IngestionConfig(_message.Message):
    __slots__ = ("ingress_mode", "hydration_config", "output_hints", "custom_config")
    INGRESS_MODE_FIELD_NUMBER: _ClassVar[int]
    HYDRATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_HINTS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ingress_mode: IngressMode
    hydration_config: HydrationConfig
    output_hints: OutputHints
    custom_config: _struct_pb2.Struct
    def __init__(self, ingress_mode: _Optional[_Union[IngressMode, str]] = ..., hydration_config: _Optional[_Union[HydrationConfig, _Mapping]] = ..., output_hints: _Optional[_Union[OutputHints, _Mapping]] = ..., custom_config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class StreamMetadata(_message.Message):
    __slots__ = ("source_id", "created_at", "last_processed_at", "trace_id", "history", "stream_error", "context_params", "datasource_id", "account_id", "entry_node_id", "ingestion_config", "is_test", "dry_run", "graph_id", "graph_version", "crawl_id")
    class ContextParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_PROCESSED_AT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    STREAM_ERROR_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PARAMS_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INGESTION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    IS_TEST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    GRAPH_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    CRAWL_ID_FIELD_NUMBER: _ClassVar[int]
    source_id: str
    created_at: _timestamp_pb2.Timestamp
    last_processed_at: _timestamp_pb2.Timestamp
    trace_id: str
    history: _containers.RepeatedCompositeFieldContainer[StepExecutionRecord]
    stream_error: ErrorData
    context_params: _containers.ScalarMap[str, str]
    datasource_id: str
    account_id: str
    entry_node_id: str
    ingestion_config: IngestionConfig
    is_test: bool
    dry_run: bool
    graph_id: str
    graph_version: int
    crawl_id: str
    def __init__(self, source_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_processed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trace_id: _Optional[str] = ..., history: _Optional[_Iterable[_Union[StepExecutionRecord, _Mapping]]] = ..., stream_error: _Optional[_Union[ErrorData, _Mapping]] = ..., context_params: _Optional[_Mapping[str, str]] = ..., datasource_id: _Optional[str] = ..., account_id: _Optional[str] = ..., entry_node_id: _Optional[str] = ..., ingestion_config: _Optional[_Union[IngestionConfig, _Mapping]] = ..., is_test: _Optional[bool] = ..., dry_run: _Optional[bool] = ..., graph_id: _Optional[str] = ..., graph_version: _Optional[int] = ..., crawl_id: _Optional[str] = ...) -> None: ...

class DocumentReference(_message.Message):
    __slots__ = ("doc_id", "source_node_id", "account_id", "object_key", "object_offset", "object_length")
    DOC_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_KEY_FIELD_NUMBER: _ClassVar[int]
    OBJECT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OBJECT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    doc_id: str
    source_node_id: str
    account_id: str
    object_key: str
    object_offset: int
    object_length: int
    def __init__(self, doc_id: _Optional[str] = ..., source_node_id: _Optional[str] = ..., account_id: _Optional[str] = ..., object_key: _Optional[str] = ..., object_offset: _Optional[int] = ..., object_length: _Optional[int] = ...) -> None: ...

class PipeStream(_message.Message):
    __slots__ = ("stream_id", "metadata", "document", "document_ref", "cluster_id", "current_node_id", "hop_count", "processing_path", "node_processing_config")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_REF_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOP_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_PATH_FIELD_NUMBER: _ClassVar[int]
    NODE_PROCESSING_CONFIG_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    metadata: StreamMetadata
    document: PipeDoc
    document_ref: DocumentReference
    cluster_id: str
    current_node_id: str
    hop_count: int
    processing_path: _containers.RepeatedScalarFieldContainer[str]
    node_processing_config: NodeProcessingConfig
    def __init__(self, stream_id: _Optional[str] = ..., metadata: _Optional[_Union[StreamMetadata, _Mapping]] = ..., document: _Optional[_Union[PipeDoc, _Mapping]] = ..., document_ref: _Optional[_Union[DocumentReference, _Mapping]] = ..., cluster_id: _Optional[str] = ..., current_node_id: _Optional[str] = ..., hop_count: _Optional[int] = ..., processing_path: _Optional[_Iterable[str]] = ..., node_processing_config: _Optional[_Union[NodeProcessingConfig, _Mapping]] = ...) -> None: ...

class ProcessingMapping(_message.Message):
    __slots__ = ("mapping_id", "source_field_paths", "target_field_paths", "mapping_type", "transform_config", "aggregate_config", "split_config", "cel_config")
    MAPPING_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_PATHS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_PATHS_FIELD_NUMBER: _ClassVar[int]
    MAPPING_TYPE_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SPLIT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CEL_CONFIG_FIELD_NUMBER: _ClassVar[int]
    mapping_id: str
    source_field_paths: _containers.RepeatedScalarFieldContainer[str]
    target_field_paths: _containers.RepeatedScalarFieldContainer[str]
    mapping_type: MappingType
    transform_config: TransformConfig
    aggregate_config: AggregateConfig
    split_config: SplitConfig
    cel_config: CelConfig
    def __init__(self, mapping_id: _Optional[str] = ..., source_field_paths: _Optional[_Iterable[str]] = ..., target_field_paths: _Optional[_Iterable[str]] = ..., mapping_type: _Optional[_Union[MappingType, str]] = ..., transform_config: _Optional[_Union[TransformConfig, _Mapping]] = ..., aggregate_config: _Optional[_Union[AggregateConfig, _Mapping]] = ..., split_config: _Optional[_Union[SplitConfig, _Mapping]] = ..., cel_config: _Optional[_Union[CelConfig, _Mapping]] = ...) -> None: ...

class TransformConfig(_message.Message):
    __slots__ = ("rule_name", "params")
    RULE_NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    rule_name: str
    params: _struct_pb2.Struct
    def __init__(self, rule_name: _Optional[str] = ..., params: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class CelConfig(_message.Message):
    __slots__ = ("expression",)
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    expression: str
    def __init__(self, expression: _Optional[str] = ...) -> None: ...

class AggregateConfig(_message.Message):
    __slots__ = ("aggregation_type", "delimiter")
    class AggregationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AGGREGATION_TYPE_UNSPECIFIED: _ClassVar[AggregateConfig.AggregationType]
        AGGREGATION_TYPE_CONCATENATE: _ClassVar[AggregateConfig.AggregationType]
        AGGREGATION_TYPE_SUM: _ClassVar[AggregateConfig.AggregationType]
    AGGREGATION_TYPE_UNSPECIFIED: AggregateConfig.AggregationType
    AGGREGATION_TYPE_CONCATENATE: AggregateConfig.AggregationType
    AGGREGATION_TYPE_SUM: AggregateConfig.AggregationType
    AGGREGATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    DELIMITER_FIELD_NUMBER: _ClassVar[int]
    aggregation_type: AggregateConfig.AggregationType
    delimiter: str
    def __init__(self, aggregation_type: _Optional[_Union[AggregateConfig.AggregationType, str]] = ..., delimiter: _Optional[str] = ...) -> None: ...

class SplitConfig(_message.Message):
    __slots__ = ("delimiter",)
    DELIMITER_FIELD_NUMBER: _ClassVar[int]
    delimiter: str
    def __init__(self, delimiter: _Optional[str] = ...) -> None: ...

class NodeProcessingConfig(_message.Message):
    __slots__ = ("node_id", "pre_mappings", "post_mappings", "intent", "node_config", "filter_condition", "save_on_error")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRE_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    POST_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    NODE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    FILTER_CONDITION_FIELD_NUMBER: _ClassVar[int]
    SAVE_ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    pre_mappings: _containers.RepeatedCompositeFieldContainer[ProcessingMapping]
    post_mappings: _containers.RepeatedCompositeFieldContainer[ProcessingMapping]
    intent: Intent
    node_config: _any_pb2.Any
    filter_condition: str
    save_on_error: bool
    def __init__(self, node_id: _Optional[str] = ..., pre_mappings: _Optional[_Iterable[_Union[ProcessingMapping, _Mapping]]] = ..., post_mappings: _Optional[_Iterable[_Union[ProcessingMapping, _Mapping]]] = ..., intent: _Optional[_Union[Intent, str]] = ..., node_config: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., filter_condition: _Optional[str] = ..., save_on_error: _Optional[bool] = ...) -> None: ...

class EngineLogOrigin(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class ModuleLogOrigin(_message.Message):
    __slots__ = ("module_name", "config_id")
    MODULE_NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_ID_FIELD_NUMBER: _ClassVar[int]
    module_name: str
    config_id: str
    def __init__(self, module_name: _Optional[str] = ..., config_id: _Optional[str] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("source", "message", "timestamp_epoch_ms", "doc_id", "stream_id", "step_index", "engine", "module", "level")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
    DOC_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    source: LogEntrySource
    message: str
    timestamp_epoch_ms: int
    doc_id: str
    stream_id: str
    step_index: int
    engine: EngineLogOrigin
    module: ModuleLogOrigin
    level: LogLevel
    def __init__(self, source: _Optional[_Union[LogEntrySource, str]] = ..., message: _Optional[str] = ..., timestamp_epoch_ms: _Optional[int] = ..., doc_id: _Optional[str] = ..., stream_id: _Optional[str] = ..., step_index: _Optional[int] = ..., engine: _Optional[_Union[EngineLogOrigin, _Mapping]] = ..., module: _Optional[_Union[ModuleLogOrigin, _Mapping]] = ..., level: _Optional[_Union[LogLevel, str]] = ...) -> None: ...

class StepExecutionRecord(_message.Message):
    __slots__ = ("hop_number", "node_id", "service_instance_id", "start_time", "end_time", "status", "error_info", "attempted_target_node_id", "log_entries", "module_id", "graph_id", "document_id", "account_id", "stream_id", "crawl_id", "graph_hash")
    HOP_NUMBER_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_INFO_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_TARGET_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MODULE_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CRAWL_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_HASH_FIELD_NUMBER: _ClassVar[int]
    hop_number: int
    node_id: str
    service_instance_id: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    status: str
    error_info: ErrorData
    attempted_target_node_id: str
    log_entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    module_id: str
    graph_id: str
    document_id: str
    account_id: str
    stream_id: str
    crawl_id: str
    graph_hash: str
    def __init__(self, hop_number: _Optional[int] = ..., node_id: _Optional[str] = ..., service_instance_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., status: _Optional[str] = ..., error_info: _Optional[_Union[ErrorData, _Mapping]] = ..., attempted_target_node_id: _Optional[str] = ..., log_entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ..., module_id: _Optional[str] = ..., graph_id: _Optional[str] = ..., document_id: _Optional[str] = ..., account_id: _Optional[str] = ..., stream_id: _Optional[str] = ..., crawl_id: _Optional[str] = ..., graph_hash: _Optional[str] = ...) -> None: ...

class ErrorData(_message.Message):
    __slots__ = ("error_message", "error_code", "technical_details", "originating_node_id", "attempted_target_node_id", "input_state_at_failure", "timestamp")
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    TECHNICAL_DETAILS_FIELD_NUMBER: _ClassVar[int]
    ORIGINATING_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_TARGET_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_STATE_AT_FAILURE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    error_message: str
    error_code: str
    technical_details: str
    originating_node_id: str
    attempted_target_node_id: str
    input_state_at_failure: FailedStepInputState
    timestamp: _timestamp_pb2.Timestamp
    def __init__(self, error_message: _Optional[str] = ..., error_code: _Optional[str] = ..., technical_details: _Optional[str] = ..., originating_node_id: _Optional[str] = ..., attempted_target_node_id: _Optional[str] = ..., input_state_at_failure: _Optional[_Union[FailedStepInputState, _Mapping]] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FailedStepInputState(_message.Message):
    __slots__ = ("doc_state", "blob_state", "custom_config_struct", "config_params")
    class ConfigParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DOC_STATE_FIELD_NUMBER: _ClassVar[int]
    BLOB_STATE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CONFIG_STRUCT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PARAMS_FIELD_NUMBER: _ClassVar[int]
    doc_state: PipeDoc
    blob_state: Blob
    custom_config_struct: _struct_pb2.Struct
    config_params: _containers.ScalarMap[str, str]
    def __init__(self, doc_state: _Optional[_Union[PipeDoc, _Mapping]] = ..., blob_state: _Optional[_Union[Blob, _Mapping]] = ..., custom_config_struct: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., config_params: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ProcessConfiguration(_message.Message):
    __slots__ = ("json_config", "config_params")
    class ConfigParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JSON_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PARAMS_FIELD_NUMBER: _ClassVar[int]
    json_config: _struct_pb2.Struct
    config_params: _containers.ScalarMap[str, str]
    def __init__(self, json_config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., config_params: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DlqMessage(_message.Message):
    __slots__ = ("stream", "error_type", "error_message", "failed_at", "retry_count", "failed_node_id", "original_topic", "original_partition", "original_offset", "dlq_reprocess_count", "quarantined", "quarantined_at")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_PARTITION_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DLQ_REPROCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_AT_FIELD_NUMBER: _ClassVar[int]
    stream: PipeStream
    error_type: str
    error_message: str
    failed_at: _timestamp_pb2.Timestamp
    retry_count: int
    failed_node_id: str
    original_topic: str
    original_partition: int
    original_offset: int
    dlq_reprocess_count: int
    quarantined: bool
    quarantined_at: _timestamp_pb2.Timestamp
    def __init__(self, stream: _Optional[_Union[PipeStream, _Mapping]] = ..., error_type: _Optional[str] = ..., error_message: _Optional[str] = ..., failed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., retry_count: _Optional[int] = ..., failed_node_id: _Optional[str] = ..., original_topic: _Optional[str] = ..., original_partition: _Optional[int] = ..., original_offset: _Optional[int] = ..., dlq_reprocess_count: _Optional[int] = ..., quarantined: _Optional[bool] = ..., quarantined_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
