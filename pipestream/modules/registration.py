"""What a gRPC module says about itself: ``GetServiceRegistration``."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import grpc

from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2 as service
from pipestream.modules.module import ModuleProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)


def ask_registration(stub: Any, timeout_s: float) -> ModuleProfile:
    """Ask a service for its registration; an empty profile if it does not have the call.

    :raises grpc.RpcError: it did not answer.
    """
    try:
        answer = stub.GetServiceRegistration(service.GetServiceRegistrationRequest(), timeout=timeout_s)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return ModuleProfile()
        raise
    schema, problem = _read_schema(answer.json_config_schema)
    return ModuleProfile(
        is_parser=service.CAPABILITY_TYPE_PARSER in answer.capabilities.types,
        config_schema=schema,
        name=answer.display_name or answer.module_name,
        version=answer.version,
        description=answer.description,
        problem=problem,
    )


def _read_schema(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return a schema, and why it cannot be used."""
    if not text.strip():
        return None, ""
    try:
        schema = json.loads(text)
    except ValueError as error:
        return None, f"its json_config_schema is not JSON: {error}"
    if not isinstance(schema, dict):
        return None, f"its json_config_schema is {type(schema).__name__}, not an object"
    return schema, ""
