"""The settings of a task: those of its process, with addresses and secrets of Airflow's connections in their place.

The one place where a connection becomes settings. Settings name the connections; no parse of a DAG asks for them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException
from psycopg.conninfo import make_conninfo

from pipestream.errors import SettingsInvalid
from pipestream.kafka_options import DECIDED, flatten
from pipestream.settings import ENV_PREFIX, Settings, load_settings
from pipestream_airflow.consul_hook import ConsulHook

if TYPE_CHECKING:
    from airflow.sdk import Connection

_AWS_EXTRA = ("region_name", "endpoint_url")


def run_settings(consul_conn_id: str | None = None) -> tuple[Settings, dict[str, str]]:
    """Return the settings of a task, and the variables with which a process that it starts has the same.

    The settings ``kafka_conn_id``, ``aws_conn_id`` and ``postgres_conn_id`` name connections. A connection stands for
    an address and all secrets that are sent there. Those of the settings belong to another server, so they are not
    used even if the connection has none: the variables are then empty, as a process may have the settings in a file.

    :param consul_conn_id: the connection that says where Consul is; None: the settings say it.
    :raises AirflowFailException: a connection cannot be used.
    """
    own = load_settings()
    values: dict[str, str] = {}
    try:
        for conn_id, conn_type, read in (
            (own.kafka_conn_id, "kafka", _kafka_values),
            (own.aws_conn_id, "aws", _aws_values),
            (own.postgres_conn_id, "postgres", _postgres_values),
        ):
            if conn_id:
                values |= read(_find(conn_id, conn_type))
        if consul_conn_id:
            values |= ConsulHook(consul_conn_id).checked_values()
        settings = load_settings(**values)
    except SettingsInvalid as error:
        raise AirflowFailException(str(error)) from error
    return settings, {f"{ENV_PREFIX}{name.upper()}": value for name, value in values.items()}


def _find(conn_id: str, conn_type: str) -> Connection:
    found: Connection = BaseHook.get_connection(conn_id)
    if found.conn_type != conn_type:
        raise SettingsInvalid(
            f"the connection {conn_id} is of type {found.conn_type!r}; name one of type {conn_type!r}"
        )
    return found


def _kafka_values(connection: Connection) -> dict[str, str]:
    """Read a connection of Airflow's Kafka provider, whose extra has the options of Kafka's client.

    Options that every run decides, such as ``group.id``, are for others who share the connection.

    :raises SettingsInvalid: it names no broker.
    """
    options = flatten(connection.extra_dejson)
    brokers = options.get("bootstrap.servers")
    if not brokers:
        raise SettingsInvalid(f"the connection {connection.conn_id} has no bootstrap.servers in its extra")
    own = {name: value for name, value in options.items() if name not in DECIDED}
    return {"kafka_bootstrap": brokers, "kafka_options": json.dumps(own)}


def _aws_values(connection: Connection) -> dict[str, str]:
    """Read a connection of the type of Airflow's Amazon provider.

    Without keys, AWS's own lookup applies, and without an endpoint, S3 is AWS's. The region may be the settings'.

    :raises SettingsInvalid: it has more than keys, region and endpoint, which nobody would obey.
    """
    extra = connection.extra_dejson
    if unused := sorted(set(extra) - set(_AWS_EXTRA)):
        raise SettingsInvalid(
            f"the connection {connection.conn_id} has {', '.join(unused)} in its extra, which would not be used: leave "
            f"login and password empty and let AWS's own lookup find the role, and keep only {', '.join(_AWS_EXTRA)}"
        )
    values = {
        "s3_access_key": connection.login or "",
        "s3_secret_key": connection.password or "",
        "s3_endpoint": str(extra.get("endpoint_url") or ""),
    }
    region = str(extra.get("region_name") or "")
    return values | ({"s3_region": region} if region else {})


def _postgres_values(connection: Connection) -> dict[str, str]:
    """Read a connection of Airflow's PostgreSQL provider, with libpq's options, such as ``sslmode``, in its extra.

    :raises SettingsInvalid: the extra has something else.
    """
    parts = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.login,
        "password": connection.password,
        "dbname": connection.schema,
    }
    try:
        given = {name: value for name, value in parts.items() if value}
        return {"postgres_dsn": make_conninfo("", **given, **connection.extra_dejson)}
    except (psycopg.ProgrammingError, TypeError):
        names = ", ".join(sorted(connection.extra_dejson))
        raise SettingsInvalid(
            f"the extra of the connection {connection.conn_id} has an option that PostgreSQL does not know: {names}"
        ) from None
