"""Which variables the Python workers of executors get from the process that drains."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pipestream import faults
from pipestream.settings import CONFIG_VARIABLE, ENV_PREFIX, STACK_PREFIX, config_file, secret_settings

# Addresses, which may have a password in them.
_MAYBE_SECRET = {"gateway_url", "metrics_push_url", "otlp_endpoint"}

_NO_VALUE = ("", "{}")
"""What variables have whose setting has no value, or is an empty table."""


def executor_environment() -> dict[str, str]:
    """Return the variables that executors get from this process. Otherwise they have only their worker's environment.

    Of the settings only the file's name is passed, not its content. So the file must be on the workers too, or the
    workers have the settings in their environment.
    """
    passed_on = {name: os.environ[name] for name in (faults.VARIABLE, faults.ONCE_VARIABLE) if name in os.environ}
    file = config_file()
    return passed_on | ({CONFIG_VARIABLE: str(file.absolute())} if file else {})


def connect_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for the workers of a Spark Connect server, which was started by somebody else.

    In addition to ``executor_environment``: the settings in this process's environment that are not secret. A worker
    started by spark-submit on the same machine would inherit them.

    :param variables: settings of this drain that are not in the environment; they count in place of those. An empty one
        takes a secret back that the workers have, so it is passed on.
    """
    secret = {f"{ENV_PREFIX}{name.upper()}" for name in secret_settings() | _MAYBE_SECRET}
    settings = {
        name: value
        for name, value in {**os.environ, **(variables or {})}.items()
        if name.startswith(ENV_PREFIX) and not name.startswith(STACK_PREFIX) and name.upper() not in secret
    }
    taken_back = {name: value for name, value in (variables or {}).items() if value in _NO_VALUE}
    return settings | taken_back | executor_environment()
