"""``pipestream settings``: every setting, its variable and its value now."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import typer

from pipestream.cli.options import JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, note, show_table

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

HIDDEN = "••••"
"""Stands for a secret that is set."""


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "pipestream settings",
            "PIPESTREAM_DRAIN_BUDGET=5000 pipestream settings --json",
            "PIPESTREAM_CONFIG=prod.toml pipestream settings",
        )
    )(settings)


def settings(json: JsonOption = False) -> None:
    """List every setting: its environment variable, type, default, current value, and what it is for.

    A value comes from the environment, else from the TOML file, else it is the default. Secrets are never shown.
    """
    from pipestream.settings import config_file

    rows = setting_rows()
    if json:
        emit_json({"file": config_file(), "settings": rows})
        return
    for group, of_group in groupby(rows, key=itemgetter("group")):
        show_table(
            ["setting", "type", "default", "value", "meaning"],
            [[row["variable"], row["type"], row["default"], row["value"], row["description"]] for row in of_group],
            title=group,
            fold=["setting", "default", "value", "meaning"],
        )
    note(f"file: {config_file() or 'none (PIPESTREAM_CONFIG names one)'}")


def setting_rows() -> list[dict[str, Any]]:
    """Return every setting with its value, group by group; what is secret, or could be, is hidden."""
    from pipestream.settings import ENV_PREFIX, Settings, settings_by_group

    current = read_settings()
    return [
        {
            "name": name,
            "group": group,
            "variable": ENV_PREFIX + name.upper(),
            "type": _type_name(field),
            "default": _shown(field.default),
            "value": _shown(getattr(current, name)),
            "description": field.description or "",
        }
        for group, names in settings_by_group().items()
        for name, field in ((each, Settings.model_fields[each]) for each in names)
    ]


def _shown(value: object) -> Any:
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_shown(each)}" for name, each in value.items()) or None
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _type_name(field: FieldInfo) -> str:
    import types
    import typing

    names = {
        "str": "text",
        "int": "whole number",
        "float": "number",
        "bool": "yes or no",
        "Path": "path",
        "SecretStr": "secret",
        "Mapping": "table of secrets",
    }
    kind = field.annotation
    words = []
    for part in typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,):
        if typing.get_origin(part) is typing.Literal:
            words += [str(choice) for choice in typing.get_args(part)]
        elif part is not type(None):
            name = getattr(part, "__name__", str(part))
            words.append(names.get(name, name))
    return " | ".join(words)
