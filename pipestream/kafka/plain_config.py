"""Use a plain client configuration, a dict of librdkafka options, where the product uses its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from pipestream.errors import RequestInvalid
from pipestream.kafka_options import flatten, refuse_unusable
from pipestream.settings import Settings

_BOOTSTRAP = "bootstrap.servers"
_GROUP = "group.id"


def read_client_config(config: Mapping[str, Any]) -> tuple[Settings, str]:
    """Return the settings that connect as a configuration says, and its ``group.id`` (empty without one).

    Neither the environment nor a file is read: every other setting has its default.

    :raises RequestInvalid: ``bootstrap.servers`` is missing, or an option cannot be set.
    """
    try:
        options = flatten(config)
        bootstrap, group = options.pop(_BOOTSTRAP, ""), options.pop(_GROUP, "")
        refuse_unusable(options)
    except ValueError as error:
        raise RequestInvalid(f"client configuration: {error}") from None
    if not bootstrap:
        raise RequestInvalid(f"client configuration: {_BOOTSTRAP} is missing; name the brokers as host:port")
    secret = {name: SecretStr(value) for name, value in options.items()}
    return Settings.model_construct(kafka_bootstrap=bootstrap, kafka_options=secret), group
