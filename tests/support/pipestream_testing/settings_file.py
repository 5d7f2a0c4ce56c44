"""Settings as a file, for processes that a test starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import SecretStr

from pipestream.local.state import toml_text, write_private
from pipestream.settings import Settings


def write_settings(file: Path, settings: Settings) -> None:
    """Write settings, secrets included, as the private TOML file that ``PIPESTREAM_CONFIG`` may name."""
    write_private(file, toml_text({name: _plain(value) for name, value in settings if value is not None}))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value) if isinstance(value, Path) else value
