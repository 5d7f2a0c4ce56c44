"""The config of the built-in modules: JSON Schemas with a default for each key, and how a config is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import jsonschema

from pipestream.errors import ModuleFailed

Options = Mapping[str, Any]
"""A config that was checked, with the default for each key that it leaves out."""

MEGABYTE = 1024 * 1024

LIMITS: Mapping[str, Any] = {
    "max_bytes": {
        "type": "integer",
        "minimum": 1,
        "default": 64 * MEGABYTE,
        "description": "Largest file that is read; a larger one fails.",
    },
    "max_unpacked_bytes": {
        "type": "integer",
        "minimum": 1,
        "default": 256 * MEGABYTE,
        "description": "Largest size of a zip file (Word, Excel, ODS) when it is unpacked; a larger one fails.",
    },
    "max_characters": {
        "type": "integer",
        "minimum": 1,
        "default": 10_000_000,
        "description": "Longest text of one document; on_limit says what happens to a longer one.",
    },
    "on_limit": {
        "enum": ["fail", "truncate"],
        "default": "fail",
        "description": "What happens to a file with more pages, cells or text than the limit: the document fails, or "
        "continues with what was read, marked as partial.",
    },
    "on_empty": {
        "enum": ["fail", "pass"],
        "default": "fail",
        "description": "What happens to a file without text, such as a scan: the document fails, or continues with an "
        "empty body.",
    },
}
PAGES: Mapping[str, Any] = {
    "max_pages": {
        "type": "integer",
        "minimum": 1,
        "default": 5_000,
        "description": "Most pages of a PDF that are read.",
    },
}
CELLS: Mapping[str, Any] = {
    "max_cells": {
        "type": "integer",
        "minimum": 1,
        "default": 1_000_000,
        "description": "Most cells of a table that are read. It counts the rectangle around all cells, empty ones too.",
    },
}
ENCODING: Mapping[str, Any] = {
    "encoding": {
        "type": "string",
        "default": "utf-8",
        "description": "The encoding of text whose blob does not name one, e.g. latin-1.",
    },
}
MAIL: Mapping[str, Any] = {
    "attachments": {
        "enum": ["list", "documents", "ignore"],
        "default": "list",
        "description": "list: names, types and sizes go into custom_fields.attachments. documents: each also becomes a "
        "document of its own, with the attachment as its blob.",
    },
    "max_attachments": {
        "type": "integer",
        "minimum": 0,
        "default": 100,
        "description": "Most attachments of one mail; on_limit says what happens to a mail with more.",
    },
}


def schema_of(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a config that has the keys of all ``parts``, and no others."""
    properties = {key: value for part in parts for key, value in part.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def read_options(schema: Mapping[str, Any], config: Mapping[str, Any]) -> Options:
    """Return a node's config with defaults.

    :raises ModuleFailed: it breaks the schema; the message has every problem.
    """
    # Both as text: a config may be any mapping, and the same few come again with every document.
    return _read(json.dumps(schema), json.dumps(_plain(config), sort_keys=True))


@lru_cache(maxsize=256)
def _read(schema_text: str, config_text: str) -> Options:
    schema, config = json.loads(schema_text), json.loads(config_text)
    problems = sorted(jsonschema.Draft202012Validator(schema).iter_errors(config), key=lambda each: each.json_path)
    if problems:
        listed = "; ".join(f"{each.json_path}: {each.message}" for each in problems)
        raise ModuleFailed(f"the node's config is not valid: {listed[:500]}")
    defaults = {key: value["default"] for key, value in schema["properties"].items()}
    return MappingProxyType({**defaults, **{key: _whole(value) for key, value in config.items()}})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _whole(value: Any) -> Any:
    """Return 8 for 8.0: a graph on the wire has only doubles."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
