"""The messages of the wire format in one module, so that no other module imports the generated ones."""

from __future__ import annotations

from pipestream.gen.ai.pipestream.config.v1.pipeline_config_models_pb2 import (
    DlqConfig,
    GraphDatasource,
    GraphEdge,
    GraphNode,
    PipelineGraph,
)
from pipestream.gen.ai.pipestream.data.module.v1.module_service_pb2 import (
    ProcessDataRequest,
    ProcessDataResponse,
)
from pipestream.gen.ai.pipestream.data.v1.pipeline_core_types_pb2 import (
    Blob,
    ChecksumType,
    DlqMessage,
    DocumentReference,
    ErrorData,
    FileStorageReference,
    LogEntry,
    PipeDoc,
    PipeStream,
    ProcessingMapping,
    StepExecutionRecord,
    StreamMetadata,
)

__all__ = [
    "Blob",
    "ChecksumType",
    "DlqConfig",
    "DlqMessage",
    "DocumentReference",
    "ErrorData",
    "FileStorageReference",
    "GraphDatasource",
    "GraphEdge",
    "GraphNode",
    "LogEntry",
    "PipeDoc",
    "PipeStream",
    "PipelineGraph",
    "ProcessDataRequest",
    "ProcessDataResponse",
    "ProcessingMapping",
    "StepExecutionRecord",
    "StreamMetadata",
]
