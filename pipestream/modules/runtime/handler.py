"""What a served function gets and what becomes of its result, in both protocols. Bytes in, bytes out."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pipestream.errors import ModuleFailed, TransientError
from pipestream.modules.callables import CallableModule
from pipestream.modules.declare import declared_profile
from pipestream.modules.envelope import (
    PROCESSING_ERROR,
    EnvelopeInvalid,
    Reason,
    answer_items,
    error_item,
    parse_envelope,
)
from pipestream.modules.module import Answer, HopStatus, ModuleContext
from pipestream.modules.resolve import import_callable
from pipestream.modules.unix import ANSWER, CONFIG, CONFIG_PARAMS, CONTEXT, UNAVAILABLE
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILE = "@profile"
"""The one key of a request that asks what the function declares about itself."""
_TRACE_LIMIT = 4_000
# The process that calls decides how long it waits, and kills this one.
_NO_TIMEOUT_S = 7 * 86_400.0
_CONTEXT_NAMES = ("graph_id", "node_id", "stream_id", "hop", "attempt", "idempotency_key", "trace_id", "timeout_s")


class _Failed(Exception):
    """An answer that says why there is no document."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        super().__init__(item["error"])


class Handler:
    """Calls a function for each message.

    A function of two arguments gets a ``PipeDoc`` and a ``ModuleContext``, as that of a ``python:`` module does. A
    function of one argument gets the payload as JSON values, and returns such.
    """

    def __init__(self, function: Callable[..., Any], target: str, actor: str = "") -> None:
        self._function = function
        self._module = CallableModule(function, f"runtime:{target}")
        self._takes_documents = takes_documents(function)
        self._actor = actor

    @classmethod
    def of(cls, target: str, actor: str = "") -> Handler:
        """:raises GraphInvalid: the function is not there."""
        return cls(import_callable(target), target, actor)

    def answer_payload(self, request: bytes) -> bytes:
        """Return the answer to a message of the protocol ``payload``."""
        try:
            payload = _load(request)
            if isinstance(payload, dict) and payload.keys() == {PROFILE}:
                return _dump(self._profile())
            values, status, problems = self._call(payload)
        except _Failed as failed:
            return _dump(failed.item)
        if status is not HopStatus.SUCCESS:
            return _dump({ANSWER: {"documents": values, "status": status.value, "problems": problems}})
        return _dump(values[0] if len(values) == 1 else values)

    def answer_envelope(self, request: bytes) -> bytes:
        """Return the answer to a message of the protocol ``envelope``."""
        try:
            envelope = parse_envelope(request, self._actor)
            payload = envelope.payload
            if isinstance(payload, dict) and CONTEXT not in payload and self._takes_documents:
                payload = payload | {CONTEXT: dict(envelope.headers)}
            values, status, problems = self._call(payload)
        except EnvelopeInvalid as invalid:
            return _dump([error_item(invalid.reason.value, str(invalid))])
        except _Failed as failed:
            return _dump([failed.item])
        items = answer_items(envelope, values)
        if status is not HopStatus.SUCCESS:
            items = [item | {"headers": {"status": status.value, "problems": problems}} for item in items]
        return _dump(items)

    def _call(self, payload: Any) -> tuple[list[Any], HopStatus, list[str]]:
        try:
            if not self._takes_documents:
                return _values(self._function(payload)), HopStatus.SUCCESS, []
            document, context = _document(payload)
            answered = self._module.process(document, context)
        except _Failed:
            raise
        except TransientError as error:
            raise _Failed(error_item(UNAVAILABLE, str(error))) from error
        except (Exception, SystemExit) as error:
            raise _Failed(_failure(error)) from error
        answer = answered if isinstance(answered, Answer) else Answer(answered)
        return [_plain(each) for each in answer.documents], answer.status, list(answer.problems)

    def _profile(self) -> dict[str, Any]:
        profile = declared_profile(self._function)
        schema = json.loads(json.dumps(profile.config_schema)) if profile.config_schema is not None else None
        return {
            PROFILE: {
                "is_parser": profile.is_parser,
                "config_schema": schema,
                "name": profile.name,
                "version": profile.version,
                "description": profile.description,
            }
        }


def takes_documents(function: Callable[..., Any]) -> bool:
    """Tell whether a function takes a document and a context; else it takes the payload alone."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [each for each in parameters if each.kind in positional and each.default is inspect.Parameter.empty]
    return len(required) != 1 or any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)


def _load(request: bytes) -> Any:
    try:
        return json.loads(request)
    except (ValueError, RecursionError) as error:
        item = error_item(Reason.PARSE_ERROR.value, f"the message is not JSON: {error}")
        raise _Failed(item) from error


def _document(payload: Any) -> tuple[PipeDoc, ModuleContext]:
    if not isinstance(payload, dict):
        raise _Failed(error_item(Reason.PARSE_ERROR.value, f"the payload is {type(payload).__name__}, not a document"))
    fields = {key: value for key, value in payload.items() if not key.startswith("@")}
    try:
        document = json_format.ParseDict(fields, PipeDoc())
    except json_format.ParseError as error:
        item = error_item(Reason.PARSE_ERROR.value, f"the payload is not a PipeDoc: {str(error)[:500]}")
        raise _Failed(item) from error
    said = payload.get(CONTEXT)
    said = {name: said[name] for name in _CONTEXT_NAMES if name in said} if isinstance(said, dict) else {}
    names = {"graph_id": "", "node_id": "", "stream_id": ""} | said | {"timeout_s": _NO_TIMEOUT_S}
    context = ModuleContext(**names)
    return document, replace(context, config=payload.get(CONFIG) or {}, config_params=payload.get(CONFIG_PARAMS) or {})


def _values(result: Any) -> list[Any]:
    if result is None:
        return []
    if isinstance(result, (list, tuple)) or inspect.isgenerator(result):
        return list(result)
    return [result]


def _plain(document: PipeDoc) -> dict[str, Any]:
    found: dict[str, Any] = json_format.MessageToDict(document, preserving_proto_field_name=True)
    return found


def _failure(error: BaseException) -> dict[str, Any]:
    cause = error.__cause__ if isinstance(error, ModuleFailed) and error.__cause__ else error
    reported = error if isinstance(error, ModuleFailed) else None
    kind = (reported.error_type if reported else "") or type(cause).__name__
    trace = (reported.trace if reported else "") or "".join(format_exception(cause))
    details = {f"{key}": value for key, value in (reported.details if reported else {}).items()}
    more = {key: value for key, value in details.items() if key not in ("message", "type", "traceback")}
    return error_item(PROCESSING_ERROR, str(cause) or kind, kind, trace[-_TRACE_LIMIT:], **more)


def _dump(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        item = error_item(PROCESSING_ERROR, f"the function's result cannot be written as JSON: {error}", "TypeError")
        return json.dumps([item] if isinstance(value, list) and value and "route" in value[0] else item).encode()
