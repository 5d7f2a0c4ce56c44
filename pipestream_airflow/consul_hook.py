"""The connection type ``consul``: where leases are kept, if operators take that from a connection of Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from pipestream.errors import PipestreamError, SettingsInvalid
from pipestream.extras import needs_extra
from pipestream.settings import ENV_PREFIX, load_settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8500


class ConsulHook(BaseHook):
    """Consul as a connection of Airflow describes it.

    Host and port are those of an agent; the password is the ACL token. ``scheme`` and ``ca_file`` are in the extra.

    :param consul_conn_id: the connection.
    """

    conn_name_attr = "consul_conn_id"
    default_conn_name = "consul_default"
    conn_type = "consul"
    hook_name = "Consul"

    def __init__(self, consul_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.consul_conn_id = consul_conn_id

    def values(self) -> dict[str, str]:
        """Return the settings that the connection stands for, by their names; the token is among them."""
        return _values_of(self.get_connection(self.consul_conn_id))

    def checked_values(self) -> dict[str, str]:
        """Return the values for a task.

        :raises SettingsInvalid: a value cannot be used, or the settings keep leases elsewhere.
        """
        values = self.values()
        leases = load_settings(**values).leases
        if leases != "consul":
            raise SettingsInvalid(
                f"the connection {self.consul_conn_id} would not be used: the setting leases is {leases!r}; "
                f"set {ENV_PREFIX}LEASES=consul, or give no consul_conn_id"
            )
        return values

    def get_conn(self) -> Any:
        """Return a client of Consul.

        :raises SettingsInvalid: the connection cannot be used.
        :raises ExtraMissing: the client is not installed.
        """
        with needs_extra("consul"):
            from pipestream.leases.consul_client import connect

        return connect(load_settings(**self.values()))

    def test_connection(self) -> tuple[bool, str]:
        """Ask for the cluster's leader, and whether the token may see the leases. For the button in Airflow's UI."""
        try:
            client = self.get_conn()
            from pipestream.leases.consul_client import explain_errors
            from pipestream.leases.keys import ROOT

            with explain_errors(f"{client.http.host}:{client.http.port}"):
                leader = client.status.leader()
                client.kv.get(ROOT)  # refused without a right on the key, whether it is there or not
        except PipestreamError as error:
            return False, str(error)
        return bool(leader), f"the leader is {leader}" if leader else "the cluster has no leader"


def _values_of(connection: Connection) -> dict[str, str]:
    extra = connection.extra_dejson
    return {
        "consul_address": f"{connection.host or DEFAULT_HOST}:{connection.port or DEFAULT_PORT}",
        "consul_scheme": extra.get("scheme") or "http",
        # Empty if it has none: a token of the settings is for another Consul.
        "consul_token": connection.password or "",
        "consul_ca_file": extra.get("ca_file") or "",
    }
