"""Modules behind a Unix socket, in JSON: one connection per document, in one of two protocols.

``payload``: the request is the document as protobuf JSON (field names as in the .proto files, bytes in base64), then
the writing side is closed. A node that has a ``config`` or ``config_params`` sends them along as the keys ``@config``
and ``@config_params`` of that object; no field of a document can have such a name, and an answer may repeat them. The
answer runs to the end of the connection:

* an object: the document that continues;
* an array of objects: several documents;
* ``null`` or ``[]``: none;
* an object with ``error`` (and ``message``, ``type``, ``traceback`` and more, there or in ``details``): it failed. The
  error ``unavailable`` asks for another attempt;
* an object with ``@answer``: ``documents``, and the ``status`` and ``problems`` of work that was done only in part.

``envelope``: the same object is the ``payload`` of an envelope (``envelope.py``), and the answer is an array.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.modules.envelope import (
    PROCESSING_ERROR,
    Envelope,
    EnvelopeInvalid,
    Reason,
    Route,
    check_answer_route,
)
from pipestream.modules.exchange import exchange
from pipestream.modules.module import Answer, HopStatus
from pipestream.modules.unknown import carry_unknown_fields
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.modules.module import ModuleContext

CONFIG, CONFIG_PARAMS, CONTEXT, ANSWER = "@config", "@config_params", "@context", "@answer"
UNAVAILABLE = "unavailable"
"""The error of a function that asks for another attempt."""
_OURS = (CONFIG, CONFIG_PARAMS, CONTEXT)


class SocketModule:
    """Sends documents to the process that listens at ``path``.

    JSON cannot carry protobuf fields that this version does not know. They are added to the answer again if the
    message they belong to is still there.
    """

    def __init__(self, path: str, name: str = "", *, with_context: bool = False) -> None:
        """:param name: what it is called in messages.
        :param with_context: also send what a function of ours gets as its context. Other programs need not know it.
        """
        self._path = path
        self._name = name or f"unix:{path}"
        self._with_context = with_context
        # An owner says what it did; who only has a path can only say whose job it is.
        self._not_ours = "" if name else "; Pipestream did not start this program, so it has to be restarted by hand"

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc] | Answer:
        envelope = context.envelope if context.protocol == "envelope" else None
        try:
            payload: Any = self._payload(document, context)
            sent = (
                Envelope(
                    envelope.id,
                    Route(envelope.actors, envelope.current),
                    payload,
                    envelope.parent_id,
                    _headers(context),
                )
                if envelope
                else None
            )
            request = json.dumps(sent.to_json() if sent else payload).encode()
        except (TypeError, ValueError) as error:  # an Any whose type this version does not know
            raise ModuleFailed(f"{self._name}: the document cannot be written as JSON: {error}") from error
        received = self._load(self._exchange(request, context.timeout_s, framed=sent is not None))
        if sent is not None:
            return self._from_items(received, sent, document)
        return self._from_payload(received, document)

    def close(self) -> None:
        """Connections end with their document."""

    def _payload(self, document: PipeDoc, context: ModuleContext) -> dict[str, Any]:
        payload: dict[str, Any] = json_format.MessageToDict(document, preserving_proto_field_name=True)
        if context.stream_error is not None and context.protocol == "envelope":
            payload = _failed_payload(payload, context)
        if context.config:
            payload[CONFIG] = dict(context.config)
        if context.config_params:
            payload[CONFIG_PARAMS] = dict(context.config_params)
        if self._with_context:
            payload[CONTEXT] = _headers(context)
        return payload

    def _exchange(self, request: bytes, timeout_s: float, *, framed: bool) -> bytes:
        try:
            answer = exchange(self._path, request, timeout_s, framed=framed)
        except TimeoutError:
            raise ModuleTimeout(f"{self._name} took longer than {timeout_s:g} s{self._not_ours}") from None
        except OSError as error:
            raise ModuleUnavailable(f"{self._name}: {error.strerror or error}{self._not_ours}") from error
        except ModuleFailed as error:
            raise ModuleFailed(f"{self._name}: {error}") from error
        if not answer.strip():
            # With a cause, as every other failure of the connection: its owner then looks whether the process died.
            raise ModuleUnavailable(f"{self._name} closed the connection without an answer") from ConnectionError()
        return answer

    def _load(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise ModuleFailed(
                f"{self._name}: the answer is not JSON: {error}", details={"error": Reason.PARSE_ERROR.value}
            ) from error

    def _from_payload(self, value: Any, document: PipeDoc) -> Sequence[PipeDoc] | Answer:
        if isinstance(value, dict) and "error" in value:
            raise self._failure(value)
        status = HopStatus.SUCCESS
        problems: list[str] = []
        if isinstance(value, dict) and isinstance(value.get(ANSWER), dict):
            status, problems = _status(value[ANSWER])
            value = value[ANSWER].get("documents")
        items = [] if value is None else value if isinstance(value, list) else [value]
        return _answer([self._document(item, document) for item in items], status, problems)

    def _from_items(self, items: Any, sent: Envelope, document: PipeDoc) -> Sequence[PipeDoc] | Answer:
        if not isinstance(items, list):
            raise self._invalid(Reason.PARSE_ERROR, f"the answer is {type(items).__name__}, not an array")
        documents: list[PipeDoc] = []
        problems: list[str] = []
        status = HopStatus.SUCCESS
        for item in items:
            if not isinstance(item, dict):
                raise self._invalid(Reason.PARSE_ERROR, f"the answer has {type(item).__name__}, not objects")
            if "error" in item:
                raise self._failure(item)
            try:
                check_answer_route(item.get("route"), sent)
            except EnvelopeInvalid as error:
                raise self._invalid(error.reason, str(error)) from error
            if isinstance(item.get("headers"), dict):
                status, problems = _status(item["headers"])
            if item.get("payload") is not None:
                documents.append(self._document(item["payload"], document))
        return _answer(documents, status, problems)

    def _failure(self, answer: dict[str, Any]) -> ModuleFailed | ModuleUnavailable:
        inner = answer.get("details")
        left_out = ("details", "payload", "route", *_OURS)
        answered = {key: value for key, value in answer.items() if key not in left_out}
        answered |= inner if isinstance(inner, dict) else {"details": inner} if inner else {}
        text = ": ".join(str(answered[key]) for key in ("error", "type", "message") if answered.get(key))
        if answered.get("error") == UNAVAILABLE:
            return ModuleUnavailable(f"{self._name}: {text[:500]}")
        kind, trace, _ = (str(answered.pop(key, None) or "") for key in ("type", "traceback", "message"))
        return ModuleFailed(f"{self._name}: {text[:500]}", error_type=kind, trace=trace, details=answered)

    def _invalid(self, reason: Reason, message: str) -> ModuleFailed:
        return ModuleFailed(f"{self._name}: {reason}: {message}"[:700], details={"error": reason.value})

    def _document(self, item: Any, original: PipeDoc) -> PipeDoc:
        if not isinstance(item, dict):
            raise ModuleFailed(f"{self._name}: expected documents, the answer has {type(item).__name__}")
        fields = {key: value for key, value in item.items() if key not in _OURS}
        try:
            document = json_format.ParseDict(fields, PipeDoc())
        except json_format.ParseError as error:
            raise ModuleFailed(f"{self._name}: the answer is not a PipeDoc: {str(error)[:500]}") from error
        carry_unknown_fields(original, document)
        return document


def _answer(documents: list[PipeDoc], status: HopStatus, problems: list[str]) -> Sequence[PipeDoc] | Answer:
    return documents if status is HopStatus.SUCCESS else Answer(documents, status, problems)


def _headers(context: ModuleContext) -> dict[str, Any]:
    names = ("graph_id", "node_id", "stream_id", "hop", "attempt", "idempotency_key", "trace_id", "timeout_s")
    return {name: value for name in names if (value := getattr(context, name))}


def _failed_payload(payload: dict[str, Any], context: ModuleContext) -> dict[str, Any]:
    """Return what the error-end gets: why a document failed, and the document."""
    failed = context.stream_error
    assert failed is not None, "the caller has looked"
    try:
        technical = json.loads(failed.technical_details or "{}")
    except ValueError:
        technical = {}
    reported = technical.get("details") if isinstance(technical.get("details"), dict) else {}
    details = {
        "message": failed.error_message,
        "type": str(technical.get("type") or failed.error_code),
        "traceback": str(technical.get("traceback") or ""),
    }
    return {"error": str(reported.get("error") or PROCESSING_ERROR), "details": details, "original_payload": payload}


def _status(said: dict[str, Any]) -> tuple[HopStatus, list[str]]:
    status = said.get("status")
    problems = said.get("problems")
    known = HopStatus(status) if status in (HopStatus.PARTIAL, HopStatus.SKIPPED) else HopStatus.SUCCESS
    return known, [str(problem) for problem in problems] if isinstance(problems, list) else []
