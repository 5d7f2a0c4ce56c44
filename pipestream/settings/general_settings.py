"""Where graphs and sources are, and what plugins get."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from pipestream.kafka_options import flatten
from pipestream.settings.group import SettingsGroup, read_table


class FolderSettings(SettingsGroup):
    """Folders."""

    graphs_folder: Path = Field(
        Path("dags/graphs"),
        description="Folder of graph files (*.yaml) for the command line. Airflow ignores it and reads the graphs/ "
        "next to its DAG files.",
    )
    sources_folder: Path = Field(
        Path(".pipestream/sources"), description="Folder that relative paths of connectors start from."
    )


class PluginSettings(SettingsGroup):
    """Plugins."""

    plugin_secrets: Annotated[Mapping[str, SecretStr], NoDecode] = Field(
        {},
        description="Secrets of plugins, by the names that they ask for. A table in TOML, a JSON object in the "
        "environment.",
    )

    @field_validator("plugin_secrets", mode="before")
    @classmethod
    def _read_plugin_secrets(cls, given: Any) -> Any:
        return flatten(read_table(given, '{"acme.token": "…"}'))
