"""Who runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the name of the user, to record who did something."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id may have no name
        return f"uid {os.getuid()}"
