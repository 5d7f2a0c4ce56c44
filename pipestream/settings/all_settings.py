"""All settings as one frozen object."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from pipestream.errors import SettingsInvalid
from pipestream.settings.airflow_settings import (
    ApprovalSettings,
    ArrivalSettings,
    LiveSettings,
    SparkSettings,
    WebSettings,
)
from pipestream.settings.drain_settings import DrainSettings, StreamSettings
from pipestream.settings.general_settings import FolderSettings, PluginSettings
from pipestream.settings.group import SettingsGroup
from pipestream.settings.kafka_settings import KafkaSettings
from pipestream.settings.lease_settings import LeaseSettings
from pipestream.settings.module_settings import ModuleSettings
from pipestream.settings.server_settings import EngineSettings, GrpcSettings, RepositorySettings
from pipestream.settings.sources import ENV_PREFIX, config_file, refuse_unknown_variables
from pipestream.settings.storage_settings import StorageSettings
from pipestream.settings.telemetry_settings import TelemetrySettings


class Settings(
    FolderSettings,
    KafkaSettings,
    StorageSettings,
    LeaseSettings,
    DrainSettings,
    StreamSettings,
    ModuleSettings,
    GrpcSettings,
    EngineSettings,
    RepositorySettings,
    SparkSettings,
    ArrivalSettings,
    LiveSettings,
    TelemetrySettings,
    WebSettings,
    ApprovalSettings,
    PluginSettings,
    BaseSettings,
):
    """Every setting of the product. Frozen: pass it down, never look it up again."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = config_file()
        if file is None:
            return init_settings, env_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)


def settings_by_group() -> dict[str, list[str]]:
    """Return the names of all settings by the title of their group, in the order in which people read them."""
    groups = [each for each in Settings.__bases__ if issubclass(each, SettingsGroup)]
    return {(each.__doc__ or "").rstrip("."): list(each.model_fields) for each in groups}


def secret_settings() -> set[str]:
    """Return the names of the settings that hold secrets."""
    return {name for name, each in Settings.model_fields.items() if "SecretStr" in repr(each.annotation)}


def load_settings(**overrides: Any) -> Settings:
    """Read and check all settings; ``overrides`` beat the environment and the file.

    :raises SettingsInvalid: a value cannot be used; the message names each setting and what was expected.
    """
    refuse_unknown_variables(set(Settings.model_fields))
    try:
        return Settings(**overrides)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            where = f"{ENV_PREFIX}{name.upper()}" if name else "settings"
            lines.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
        raise SettingsInvalid("\n".join(lines)) from None
    except ValueError as error:  # a TOML file that does not parse
        raise SettingsInvalid(f"{config_file()}: {error}") from None
