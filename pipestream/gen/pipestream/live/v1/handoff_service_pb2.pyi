from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as _engine_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Handoff(_message.Message):
    __slots__ = ("key", "request")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    key: str
    request: _engine_service_pb2.IntakeHandoffRequest
    def __init__(self, key: _Optional[str] = ..., request: _Optional[_Union[_engine_service_pb2.IntakeHandoffRequest, _Mapping]] = ...) -> None: ...

class HandoffBatchRequest(_message.Message):
    __slots__ = ("handoffs",)
    HANDOFFS_FIELD_NUMBER: _ClassVar[int]
    handoffs: _containers.RepeatedCompositeFieldContainer[Handoff]
    def __init__(self, handoffs: _Optional[_Iterable[_Union[Handoff, _Mapping]]] = ...) -> None: ...

class HandoffAnswer(_message.Message):
    __slots__ = ("status", "response", "error_code")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    status: _engine_service_pb2.IntakeHandoffStreamResponse.Status
    response: _engine_service_pb2.IntakeHandoffResponse
    error_code: str
    def __init__(self, status: _Optional[_Union[_engine_service_pb2.IntakeHandoffStreamResponse.Status, str]] = ..., response: _Optional[_Union[_engine_service_pb2.IntakeHandoffResponse, _Mapping]] = ..., error_code: _Optional[str] = ...) -> None: ...

class HandoffBatchResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[HandoffAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[HandoffAnswer, _Mapping]]] = ...) -> None: ...
