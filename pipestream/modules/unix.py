"""Modules behind a Unix socket, in JSON.

One connection per document: the document as protobuf JSON (field names as in the .proto files, bytes in
base64), then the writing side is closed. A node that has a ``config`` or ``config_params`` sends them along as the
keys ``@config`` and ``@config_params`` of that object; no field of a document can have such a name, and an answer may
repeat them. The answer runs to the end of the connection:

* an object: the document that continues;
* an array of objects: several documents;
* ``null`` or ``[]``: none;
* an object with ``error`` (and ``message``, ``type``, ``traceback`` and more, there or in ``details``): it failed.
"""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.modules.unknown import carry_unknown_fields
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.modules.module import ModuleContext

_CONFIG, _CONFIG_PARAMS = "@config", "@config_params"
_MAX_ANSWER_BYTES = 256 * 1024 * 1024
_READ_BYTES = 64 * 1024


class SocketModule:
    """Sends documents to the process that listens at ``path``.

    JSON cannot carry protobuf fields that this version does not know. They are added to the answer again if the
    message they belong to is still there.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc]:
        try:
            payload = json.dumps(_request(document, context)).encode()
        except (TypeError, ValueError) as error:  # an Any whose type this version does not know
            raise ModuleFailed(f"unix:{self._path}: the document cannot be written as JSON: {error}") from error
        try:
            answer = _exchange(self._path, payload, context.timeout_s)
        except TimeoutError:
            raise ModuleTimeout(f"unix:{self._path} took longer than {context.timeout_s:g} s") from None
        except OSError as error:
            raise ModuleUnavailable(f"unix:{self._path}: {error.strerror or error}") from error
        if not answer.strip():
            raise ModuleUnavailable(f"unix:{self._path} closed the connection without an answer")
        return [self._document(item, document) for item in self._items(answer)]

    def close(self) -> None:
        """Connections end with their document."""

    def _items(self, answer: bytes) -> list[Any]:
        try:
            value = json.loads(answer)
        except ValueError as error:
            raise ModuleFailed(f"unix:{self._path}: the answer is not JSON: {error}") from error
        if value is None:
            return []
        if isinstance(value, list):
            return value
        if isinstance(value, dict) and "error" in value:
            raise self._failure(value)
        return [value]

    def _failure(self, answer: dict[str, Any]) -> ModuleFailed:
        inner = answer.get("details")
        answered = {key: value for key, value in answer.items() if key not in ("details", _CONFIG, _CONFIG_PARAMS)}
        answered |= inner if isinstance(inner, dict) else {"details": inner} if inner else {}
        text = ": ".join(str(answered[key]) for key in ("error", "type", "message") if answered.get(key))
        kind, trace, _ = (str(answered.pop(key, None) or "") for key in ("type", "traceback", "message"))
        return ModuleFailed(f"unix:{self._path}: {text[:500]}", error_type=kind, trace=trace, details=answered)

    def _document(self, item: Any, original: PipeDoc) -> PipeDoc:
        if not isinstance(item, dict):
            raise ModuleFailed(f"unix:{self._path}: expected documents, the answer has {type(item).__name__}")
        fields = {key: value for key, value in item.items() if key not in (_CONFIG, _CONFIG_PARAMS)}
        try:
            document = json_format.ParseDict(fields, PipeDoc())
        except json_format.ParseError as error:
            raise ModuleFailed(f"unix:{self._path}: the answer is not a PipeDoc: {str(error)[:500]}") from error
        carry_unknown_fields(original, document)
        return document


def _request(document: PipeDoc, context: ModuleContext) -> dict[str, Any]:
    payload: dict[str, Any] = json_format.MessageToDict(document, preserving_proto_field_name=True)
    if context.config:
        payload[_CONFIG] = dict(context.config)
    if context.config_params:
        payload[_CONFIG_PARAMS] = dict(context.config_params)
    return payload


def _exchange(path: str, payload: bytes, timeout_s: float) -> bytes:
    """Send ``payload`` and return the whole answer; the timeout is for all of it, not for each read."""
    deadline = time.monotonic() + timeout_s

    def left_s() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(left_s())
        connection.connect(path)
        connection.sendall(payload)
        connection.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while True:
            connection.settimeout(left_s())
            data = connection.recv(_READ_BYTES)
            if not data:
                return bytes(answer)
            answer += data
            if len(answer) > _MAX_ANSWER_BYTES:
                raise ModuleFailed(f"unix:{path}: the answer has more than {_MAX_ANSWER_BYTES} bytes")
