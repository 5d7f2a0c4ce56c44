"""Which gRPC status, and which error code, each of our errors has. ``docs/engine.md`` has the table for callers.

The status says to a client what it may do. The error code is the name that the public services use for the same
thing; it travels in the trailing metadata, and at the start of ``error_message`` where an answer has one.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from pipestream.errors import (
    BrokerRefused,
    ConditionError,
    DatabaseRefused,
    DatasourceUnknown,
    DocumentMissing,
    ExtraMissing,
    GraphInvalid,
    HopsExceeded,
    IdInvalid,
    KeyReused,
    LeaseStoreRefused,
    LeaseUnavailable,
    LedgerDamaged,
    MappingError,
    ModuleFailed,
    ModuleTimeout,
    Overloaded,
    Overtaken,
    PipestreamError,
    PluginBroken,
    RecordInvalid,
    RecordTooLarge,
    RequestInvalid,
    SegmentDamaged,
    SettingsInvalid,
    StoreRefused,
    TimeBudgetSpent,
    TopicMissing,
    TransientError,
    printable,
)

ERROR_CODE = "pipestream-error-code"
"""The trailing metadata that names the error code."""

# gRPC refuses trailing metadata of 8 KB by default, and the details are part of it.
_DETAILS_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class RpcStatus:
    """How an error is told to a client."""

    code: grpc.StatusCode
    error_code: str


_Code = grpc.StatusCode
_STATUS: dict[type[PipestreamError], RpcStatus] = {
    RequestInvalid: RpcStatus(_Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    IdInvalid: RpcStatus(_Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    RecordInvalid: RpcStatus(_Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    # Not RESOURCE_EXHAUSTED, which clients retry: the same document is too large the next time, too.
    RecordTooLarge: RpcStatus(_Code.OUT_OF_RANGE, "RESOURCE_EXHAUSTED"),
    DocumentMissing: RpcStatus(_Code.NOT_FOUND, "NOT_FOUND"),
    SegmentDamaged: RpcStatus(_Code.NOT_FOUND, "NOT_FOUND"),
    TopicMissing: RpcStatus(_Code.NOT_FOUND, "NOT_FOUND"),
    DatasourceUnknown: RpcStatus(_Code.NOT_FOUND, "NOT_FOUND"),
    GraphInvalid: RpcStatus(_Code.FAILED_PRECONDITION, "VALIDATION_ERROR"),
    ConditionError: RpcStatus(_Code.FAILED_PRECONDITION, "VALIDATION_ERROR"),
    MappingError: RpcStatus(_Code.FAILED_PRECONDITION, "VALIDATION_ERROR"),
    HopsExceeded: RpcStatus(_Code.FAILED_PRECONDITION, "INVALID_STATE"),
    ModuleFailed: RpcStatus(_Code.FAILED_PRECONDITION, "INVALID_STATE"),
    LeaseUnavailable: RpcStatus(_Code.FAILED_PRECONDITION, "INVALID_STATE"),
    ModuleTimeout: RpcStatus(_Code.UNAVAILABLE, "TIMEOUT"),
    TimeBudgetSpent: RpcStatus(_Code.DEADLINE_EXCEEDED, "TIMEOUT"),
    KeyReused: RpcStatus(_Code.FAILED_PRECONDITION, "INVALID_STATE"),
    Overloaded: RpcStatus(_Code.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"),
    Overtaken: RpcStatus(_Code.ABORTED, "UNAVAILABLE"),
    TransientError: RpcStatus(_Code.UNAVAILABLE, "UNAVAILABLE"),
    # The caller can do nothing about these; who runs the server can.
    SettingsInvalid: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    ExtraMissing: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    PluginBroken: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    BrokerRefused: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    DatabaseRefused: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    StoreRefused: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    LeaseStoreRefused: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    LedgerDamaged: RpcStatus(_Code.INTERNAL, "INVALID_STATE"),
    PipestreamError: RpcStatus(_Code.FAILED_PRECONDITION, "INVALID_STATE"),
}
_TIMEOUT = RpcStatus(_Code.DEADLINE_EXCEEDED, "TIMEOUT")
_BUG = RpcStatus(_Code.INTERNAL, "INVALID_STATE")


def status_of(error: BaseException) -> RpcStatus:
    """Return the status of any error. One that is not ours is a bug: INTERNAL, never UNKNOWN."""
    if isinstance(error, TimeoutError):
        return _TIMEOUT
    found = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), _BUG)
    if found is _STATUS[PipestreamError] and isinstance(error, PipestreamError) and error.transient:
        return _STATUS[TransientError]  # of its cause: see DeadLettersOff
    return found


def details_of(error: BaseException) -> str:
    """Return the message that a client gets. The message of a bug stays in the log: it may hold anything."""
    if isinstance(error, PipestreamError):
        return printable(error)[:_DETAILS_LIMIT]
    if isinstance(error, TimeoutError):
        return "the call's time is over; whether it was accepted is not known, so repeat it with the same key"
    return "unexpected error; the server's log has it"


def coded_message(error: BaseException) -> str:
    """Return an error as one line for an answer: its code, then its message."""
    return f"{status_of(error).error_code}: {details_of(error)}"
