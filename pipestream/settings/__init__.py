"""All settings. They are read once, when a process starts, and passed down.

From weakest to strongest: the default in the group's module, the TOML file, the environment (``PIPESTREAM_`` and the
field's name in capitals). The file is the one ``PIPESTREAM_CONFIG`` names, else ``.pipestream/stack.toml``
(written by ``pipestream up``) below the current folder, if it is there.
"""

from pipestream.settings.all_settings import Settings, load_settings, secret_settings, settings_by_group
from pipestream.settings.sources import CONFIG_VARIABLE, ENV_PREFIX, STACK_FOLDER, STACK_PREFIX, config_file

__all__ = [
    "CONFIG_VARIABLE",
    "ENV_PREFIX",
    "STACK_FOLDER",
    "STACK_PREFIX",
    "Settings",
    "config_file",
    "load_settings",
    "secret_settings",
    "settings_by_group",
]
