"""Count the calls of gRPC servers."""

from __future__ import annotations

from functools import cache
from typing import Any

import grpc

from pipestream.telemetry.metrics import GRPC_CALLS, GRPC_DURATION


def count_call(method: str, code: Any, seconds: float) -> None:
    """Count a call that was answered.

    :param method: ``/package.Service/Method``, of a service that this server has.
    :param code: grpc's status code, as enum or number; none means OK.
    """
    calls, durations = _metrics_of(method, _name(code))
    calls.inc()
    durations.observe(seconds)


@cache
def _metrics_of(method: str, code: str) -> tuple[Any, Any]:
    short = method.rpartition(".")[2]
    return GRPC_CALLS.labels(short, code), GRPC_DURATION.labels(short)


_NAMES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


def _name(code: Any) -> str:
    number = code.value[0] if isinstance(code, grpc.StatusCode) else code or 0
    return _NAMES.get(number, "UNKNOWN")
