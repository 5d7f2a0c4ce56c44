"""Check a node's ``config`` against the JSON Schema that its module declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MAX_MESSAGE_LENGTH = 300


class SchemaUnusable(ValueError):
    """A module's schema is not a JSON Schema, or needs parts that it does not contain."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong with a config."""

    path: str
    """Where, as in ``ocr.languages[0]``; empty: the config as a whole."""
    message: str


def check_config(schema: Mapping[str, Any], config: Mapping[str, Any]) -> list[ConfigProblem]:
    """Return every problem of a config, in the order of their places.

    The schema is of another program: nothing that it refers to is fetched.

    :raises SchemaUnusable: the schema cannot be used.
    """
    # Here, because DAG files import the rules of graphs and check no config.
    from jsonschema import exceptions, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
        found = list(kind(schema, registry=Registry()).iter_errors(dict(config)))
    except exceptions.SchemaError as error:
        raise SchemaUnusable(f"it is not a JSON Schema: {_short(error.message)}") from error
    except Unresolvable as error:
        raise SchemaUnusable(f"it refers to {error.ref!r}, which it does not contain") from error
    except RecursionError as error:
        raise SchemaUnusable("it refers to itself without end") from error
    problems = [ConfigProblem(_path(error.absolute_path), _short(error.message)) for error in found]
    return sorted(problems, key=lambda problem: problem.path)


def _path(parts: Any) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")


def _short(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE_LENGTH else message[:_MAX_MESSAGE_LENGTH] + "…"
