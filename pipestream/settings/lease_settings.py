"""Who may drain a topic, and where that is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from pipestream.plugins.registry import PluginGroup, find_plugin, plugin_names
from pipestream.settings.group import SettingsGroup, none_if_empty


class LeaseSettings(SettingsGroup):
    """Leases."""

    leases: str = Field(
        "sql",
        description="Where leases are kept: consul, sql, file (one machine), none, or a lease store of an installed "
        "package.",
    )
    lease_ttl_s: float = Field(20.0, ge=3, le=86_400, description="How long a lease is valid after its last renewal.")
    max_leases: int = Field(4, ge=1, description="Drains that may run at once (the size of the Airflow pool).")
    lease_folder: Path = Field(
        Path(".pipestream/leases"), description="Folder of the file leases; on a local disk of one machine."
    )
    max_slots: int = Field(16, ge=1, description="Most slots of one topic that one run drains.")
    consul_address: str = Field("127.0.0.1:8500", description="Consul agent, host:port.")
    consul_scheme: Literal["http", "https"] = Field("http", description="How to reach Consul.")
    consul_token: SecretStr | None = Field(None, description="Consul ACL token.")
    consul_ca_file: Path | None = Field(None, description="CA certificate for Consul over TLS.")
    consul_conn_id: str | None = Field(
        None,
        description="Connection of Airflow (type consul) that DAGs take Consul's address, scheme, token and CA from, "
        "instead of the settings above.",
    )

    @field_validator("consul_token", "consul_ca_file", mode="before")
    @classmethod
    def _read_empty_consul(cls, given: Any) -> Any:
        return none_if_empty(given)

    @field_validator("leases")
    @classmethod
    def _find_lease_store(cls, name: str) -> str:
        if find_plugin(PluginGroup.LEASE_STORE, name) is None:
            raise ValueError(f"must be one of {', '.join(plugin_names(PluginGroup.LEASE_STORE))}")
        return name
