"""What groups of settings have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel


class SettingsGroup(BaseModel):
    """Settings of one subject, with the checks that concern them alone. The docstring is the group's title."""


def read_table(given: Any, example: str) -> Mapping[str, Any]:
    """Return a table that is given as one, or as JSON in the environment."""
    if isinstance(given, str):
        try:
            # An empty variable counts as not set, because Docker Compose passes unset ones as empty.
            given = json.loads(given or "{}")
        except ValueError:
            given = None
    if not isinstance(given, Mapping):
        # Not TypeError: pydantic does not catch it.
        raise ValueError(f"must be a JSON object such as {example}")  # noqa: TRY004
    return given


def none_if_empty(given: Any) -> Any:
    """Return None for empty text. So an empty variable takes a value back that the file has."""
    return None if given == "" else given


def check_pair(cert_name: str, cert: Path | None, key: Path | None) -> None:
    """Refuse a certificate without its key, and a key without its certificate."""
    if (cert is None) != (key is None):
        key_name = cert_name.replace("_cert_", "_key_")
        raise ValueError(f"{cert_name} and {key_name} go together; set both or neither")
