"""What an error of a gRPC module becomes: which ones are worth another try, and the name that each has in histories.

The seven names are those of the public services. ``docs/how-to/write-a-module.md`` has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.rpc.status import ERROR_CODE

TRANSIENT_CODES = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    # The answer of a server with full queues. A message over gRPC's size limit gets it too, and costs a few attempts.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
}
NOT_THROUGH = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
"""Statuses after which nobody knows whether the module is there at all."""

_NAMES = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "TIMEOUT",
    grpc.StatusCode.FAILED_PRECONDITION: "INVALID_STATE",
}
_TRANSIENT_NAMES = {"TIMEOUT", "UNAVAILABLE", "RESOURCE_EXHAUSTED"}
_TERMINAL_NAMES = {"NOT_FOUND", "INVALID_ARGUMENT", "INVALID_STATE", "VALIDATION_ERROR"}


def error_of_status(error: grpc.RpcError, module: str, timeout_s: float) -> ModuleFailed | ModuleUnavailable:
    """Return the error that a failed call becomes."""
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return ModuleTimeout(f"{module} took longer than {timeout_s:g} s", error_type="TIMEOUT")
    message = f"{module}: {code.name}: {(error.details() or '')[:500]}"
    if code in TRANSIENT_CODES:
        return ModuleUnavailable(message, error_type=code.name)
    return ModuleFailed(message, error_type=_told_name(error) or _NAMES.get(code, code.name))


def code_of_details(details: Mapping[str, Any]) -> str:
    """Return the code among the details of a module that answered FAILURE; empty: it gave none of the seven."""
    given = (details.get(key) for key in ("type", "code", "error_code"))
    return next((str(name) for name in given if name in _TRANSIENT_NAMES | _TERMINAL_NAMES), "")


def is_transient_code(name: str) -> bool:
    """Tell whether a code says that the same call may succeed later."""
    return name in _TRANSIENT_NAMES


def _told_name(error: grpc.RpcError) -> str:
    """Return the code that a service built on this package sends along; a status alone cannot tell all of them."""
    told = dict(error.trailing_metadata() or ()).get(ERROR_CODE, "")
    return told if told in _TERMINAL_NAMES else ""
