"""Answers over HTTP: every refusal has a status, an error code and a reason, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pipestream.errors import DatasourceUnknown, PipestreamError, TerminalError, printable

if TYPE_CHECKING:
    from pipestream.documents.catalogue import Recorded


class HttpRefusal(TerminalError):
    """A request that cannot be served."""

    def __init__(self, status: HTTPStatus, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.code = code
        self.reason = reason
        self.headers = dict(headers or {})
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status with a JSON object."""

    status: int
    values: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def taken_in(recorded: Recorded) -> Answer:
    """Return the answer to an upload: 201 for a new document, else 200."""
    row = recorded.row
    status = HTTPStatus.CREATED if recorded.outcome == "new" else HTTPStatus.OK
    return Answer(
        status,
        {
            "doc_id": row.doc_id,
            "datasource_id": row.datasource_id,
            "outcome": recorded.outcome,
            "version": row.version,
            "checksum": row.checksum,
            "size_bytes": row.size_bytes,
            "object_key": row.object_key,
        },
    )


def refused(error: PipestreamError) -> Answer:
    """Return the answer that an error gets."""
    if isinstance(error, HttpRefusal):
        return Answer(error.status, {"error": error.code, "reason": error.reason}, error.headers)
    if isinstance(error, DatasourceUnknown):
        return Answer(HTTPStatus.NOT_FOUND, {"error": "datasource_unknown", "reason": printable(error)})
    if error.transient:
        values = {"error": "unavailable", "reason": printable(error)}
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, values, {"Retry-After": "1"})
    if type(error).__name__ in _OPERATOR:
        values = {"error": "misconfigured", "reason": printable(error)}
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, values, {"Retry-After": "60"})
    return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": "invalid", "reason": printable(error)})


# The sender can do nothing about these; who runs the server can.
_OPERATOR = frozenset(
    {"StoreRefused", "DatabaseRefused", "BrokerRefused", "SettingsInvalid", "ExtraMissing", "DatasourceContested"}
)
