"""What OpenLineage's specification asks of a run event, as a JSON Schema.

The packages of OpenLineage do not ship the specification's own schema, so this states the part of it that our events
use: required fields, formats, and that every facet says who made it and by which schema.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

_URI = {"type": "string", "pattern": r"^https?://\S+$"}
_FACET = {
    "type": "object",
    "required": ["_producer", "_schemaURL"],
    "properties": {"_producer": _URI, "_schemaURL": _URI},
}
_STATISTICS = {
    **_FACET,
    "properties": {
        **_FACET["properties"],  # type: ignore[dict-item]
        "rowCount": {"type": "integer", "minimum": 0},
        "size": {"type": "integer", "minimum": 0},
        "fileCount": {"type": "integer", "minimum": 0},
    },
}


def _facets(**known: object) -> dict[str, Any]:
    return {"type": "object", "properties": known, "additionalProperties": _FACET}


def _dataset(**facets: object) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {"namespace": text, "name": text, "facets": _facets(), **facets},
    }


RUN_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"},
        "producer": _URI,
        "schemaURL": {**_URI, "pattern": r"^https://openlineage\.io/spec/\d+-\d+-\d+/OpenLineage\.json#/\S+$"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _facets()},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}, "facets": _facets()},
        },
        "inputs": {"type": "array", "items": _dataset(inputFacets=_facets(inputStatistics=_STATISTICS))},
        "outputs": {"type": "array", "items": _dataset(outputFacets=_facets(outputStatistics=_STATISTICS))},
    },
}


def find_faults(event: object) -> list[str]:
    """Return how an event breaks the specification."""
    validator = Draft202012Validator(RUN_EVENT, format_checker=FormatChecker())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(event)]


def datasets_of(event: dict[str, Any]) -> dict[str, dict[str, int | None]]:
    """Return the records of each dataset that an event names, by its address; None where they are not counted."""
    return {
        side: {
            f"{each['namespace']} {each['name']}": each.get(facets, {}).get(statistics, {}).get("rowCount")
            for each in event[side]
        }
        for side, facets, statistics in (
            ("inputs", "inputFacets", "inputStatistics"),
            ("outputs", "outputFacets", "outputStatistics"),
        )
    }
