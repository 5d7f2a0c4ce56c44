"""The options of a connector in a graph: one model checks them, and describes them in the graph's JSON Schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipestream.errors import ConnectorInvalid

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are refused: a document is held in memory, and its object is sent in one request."""

_KINDS = {"string_type": "str", "bool_type": "bool", "int_type": "int", "float_type": "float"}


class Options(BaseModel):
    """What every connector's options have in common. A number in quotes is refused rather than guessed at."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: ClassVar[str]
    limits: ClassVar[frozenset[str]] = frozenset()
    """Options that change how much is read, and not what a document is."""


class IncrementalOptions(Options):
    """The options of connectors that remember what they have seen."""

    limits: ClassVar[frozenset[str]] = frozenset({"max_documents"})

    max_documents: int = Field(0, ge=0, description="Documents a run takes at most; the next one continues. 0: all.")

    @property
    def scope(self) -> str:
        """Return what the memory of earlier runs belongs to: all options but the limits."""
        chosen = json.dumps(self.model_dump(exclude=set(self.limits)), sort_keys=True)
        return f"{self.kind}-{hashlib.sha256(chosen.encode()).hexdigest()[:16]}"


Model = TypeVar("Model", bound=Options)


def read_options(model: type[Model], options: Mapping[str, Any]) -> Model:
    """Return the options of a connector.

    :raises ConnectorInvalid: one is missing, unknown, or cannot be used; all of them are named.
    """
    try:
        return model(**options)
    except ValidationError as error:
        problems = [_problem(model, each) for each in error.errors(include_url=False)]
        raise ConnectorInvalid(f"{model.kind} connector: {'; '.join(problems)}") from None


def options_schema(model: type[Options]) -> dict[str, Any]:
    """Return the JSON Schema of a connector's options as they stand in a graph, next to its kind."""
    described = model.model_json_schema()
    properties = {name: _without_titles(each) for name, each in described["properties"].items()}
    return {
        "properties": {"kind": {"const": model.kind}, **properties},
        "required": ["kind", *described.get("required", [])],
        "additionalProperties": False,
    }


def _problem(model: type[Options], error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"]) or "options"
    kind = error["type"]
    if kind == "extra_forbidden":
        return f"unknown option {name}; it has {', '.join(sorted(model.model_fields))}"
    field = model.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    if kind == "missing" or (kind == "string_too_short" and not error["input"]):
        return f"{name} is missing; set it: {(field.description if field else '') or ''}".rstrip(": ")
    if kind in _KINDS:
        return f"{name} must be {_KINDS[kind]}, not {error['input']!r}"
    return f"{name}: {error['msg'].removeprefix('Value error, ')}" if error["loc"] else str(error["msg"])


def _without_titles(schema: Any) -> Any:
    """Pydantic gives everything a title that only repeats its name."""
    if isinstance(schema, dict):
        return {key: _without_titles(value) for key, value in schema.items() if key != "title"}
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema
