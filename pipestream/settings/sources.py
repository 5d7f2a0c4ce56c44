"""Where settings come from: the names of variables, and the TOML file."""

from __future__ import annotations

import os
from pathlib import Path

from pipestream.errors import SettingsInvalid

ENV_PREFIX = "PIPESTREAM_"
STACK_PREFIX = "PIPESTREAM_STACK_"
"""Of the local stack's own variables (ports, profile), which are not settings of the product: see ``local/spec.py``."""
CONFIG_VARIABLE = "PIPESTREAM_CONFIG"
STACK_FOLDER = Path(".pipestream")

# Read by pipestream.faults, not by the product.
_TEST_VARIABLES = ("PIPESTREAM_FAULT", "PIPESTREAM_FAULT_ONCE")


def config_file() -> Path | None:
    """Return the TOML file the settings are read from, if there is one.

    :raises SettingsInvalid: PIPESTREAM_CONFIG names a file that is not there.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        file = Path(named)
        if not file.is_file():
            raise SettingsInvalid(f"{CONFIG_VARIABLE} names {named}, which is not a file")
        return file
    written_by_up = STACK_FOLDER / "stack.toml"
    return written_by_up if written_by_up.is_file() else None


def refuse_unknown_variables(names: set[str]) -> None:
    """A misspelt variable must not be ignored: the user believes that it is set.

    :param names: of all settings.
    """
    known = {ENV_PREFIX + name.upper() for name in names} | {CONFIG_VARIABLE, *_TEST_VARIABLES}
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(ENV_PREFIX) and name not in known and not name.startswith(STACK_PREFIX)
    )
    if unknown:
        raise SettingsInvalid(f"unknown setting {', '.join(unknown)}; `pipestream settings` lists all of them")
