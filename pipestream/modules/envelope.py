"""The message envelope of actors: id, route and payload. Values in, values out.

A request is one envelope; its answer is an array, with one item per document or with one error::

    {"id": "e1", "parent_id": "e0", "route": {"actors": ["a", "b"], "current": 0}, "headers": {}, "payload": {}}
    [{"payload": {}, "route": {"actors": ["a", "b"], "current": 1}}]
    [{"error": "processing_error", "details": {"message": "…", "type": "…", "traceback": "…"}}]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

PROCESSING_ERROR = "processing_error"
"""The error of a function that raised."""


class Reason(StrEnum):
    """Why a message could not be processed."""

    PARSE_ERROR = "parse_error"
    """It is not JSON."""
    VALIDATION_ERROR = "validation_error"
    """It is not an envelope: it has no id, or no route."""
    ROUTE_MISMATCH = "route_mismatch"
    """Its current actor is another one."""
    RUNTIME_ERROR = "runtime_error"
    """The code of the actor failed."""
    TRANSPORT_ERROR = "transport_error"
    """The runtime could not be reached, died, or took too long."""


class EnvelopeInvalid(Exception):
    """A message is not an envelope for this actor."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message is on its way."""

    actors: tuple[str, ...]
    current: int = 0

    @property
    def actor(self) -> str:
        """Return whose turn it is; empty behind the last one."""
        return self.actors[self.current] if self.current < len(self.actors) else ""

    def to_json(self) -> dict[str, Any]:
        return {"actors": list(self.actors), "current": self.current}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message with its way."""

    id: str
    route: Route
    payload: Any = None
    parent_id: str = ""
    headers: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id}
        if self.parent_id:
            found["parent_id"] = self.parent_id
        found["route"] = self.route.to_json()
        if self.headers:
            found["headers"] = dict(self.headers)
        found["payload"] = self.payload
        return found


def child_id(envelope_id: str, index: int) -> str:
    """Return the id of a document of a fan-out: the first keeps its parent's."""
    return f"{envelope_id}-{index}" if index else envelope_id


def parse_envelope(data: bytes, actor: str = "") -> Envelope:
    """Read a request.

    :param actor: whose turn it must be; empty: anybody's.
    :raises EnvelopeInvalid: it is not an envelope, or is for another actor.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EnvelopeInvalid(Reason.PARSE_ERROR, f"the message is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise EnvelopeInvalid(Reason.PARSE_ERROR, f"the message is {type(value).__name__}, not an object")
    if not isinstance(value.get("id"), str) or not value["id"]:
        raise EnvelopeInvalid(Reason.VALIDATION_ERROR, "the envelope has no id")
    route = parse_route(value.get("route"))
    if actor and route.actor != actor:
        turn = f"it is the turn of {route.actor}" if route.actor else "its route is at its end"
        raise EnvelopeInvalid(Reason.ROUTE_MISMATCH, f"this is actor {actor}, and {turn}")
    headers = value.get("headers")
    return Envelope(
        value["id"],
        route,
        value.get("payload"),
        str(value.get("parent_id") or ""),
        headers if isinstance(headers, dict) else {},
    )


def parse_route(value: Any) -> Route:
    """Read a route.

    :raises EnvelopeInvalid: it is not one.
    """
    actors = value.get("actors") if isinstance(value, dict) else None
    current = value.get("current") if isinstance(value, dict) else None
    if not isinstance(actors, list) or not actors or not all(isinstance(actor, str) and actor for actor in actors):
        raise EnvelopeInvalid(Reason.VALIDATION_ERROR, "the envelope's route has no actors")
    if isinstance(current, bool) or not isinstance(current, int) or not 0 <= current <= len(actors):
        raise EnvelopeInvalid(Reason.VALIDATION_ERROR, f"the envelope's route.current is {current!r}")
    return Route(tuple(actors), current)


def error_item(error: str, message: str, kind: str = "", trace: str = "", **more: Any) -> dict[str, Any]:
    """Return the item of an answer that says why there is none."""
    details = {"message": message, "type": kind, "traceback": trace} | more
    return {"error": error, "details": {name: value for name, value in details.items() if value}}


def answer_items(request: Envelope, payloads: Sequence[Any]) -> list[dict[str, Any]]:
    """Return an answer's items: each payload, and the route with the next actor as the current one."""
    route = Route(request.route.actors, min(request.route.current + 1, len(request.route.actors)))
    return [{"payload": payload, "route": route.to_json()} for payload in payloads]


def check_answer_route(value: Any, request: Envelope) -> None:
    """Check the route of an answer: a runtime may change what comes, and never what was.

    :raises EnvelopeInvalid: it is not a route, or the actors up to this one are others than before.
    """
    route = parse_route(value)
    done = request.route.current + 1
    if route.actors[:done] != request.route.actors[:done] or route.current not in (done - 1, done):
        raise EnvelopeInvalid(
            Reason.ROUTE_MISMATCH,
            f"the answer's route is {'>'.join(route.actors)} at {route.current}, and the request's was "
            f"{'>'.join(request.route.actors)} at {request.route.current}",
        )
