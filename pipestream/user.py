"""Who runs this process, and folders for this user alone."""

from __future__ import annotations

import getpass
import os
import stat
from pathlib import Path


def user_name() -> str:
    """Return the name of the user, to record who did something."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id may have no name
        return f"uid {os.getuid()}"


def make_own_folder(folder: Path) -> None:
    """Create a folder for this user alone, unless it is there.

    In a place where everybody may write, such as ``/tmp``, another user can be first, with a folder or with a link to
    one of ours.

    :raises PermissionError: it is not this user's, or it is a link.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{folder} is a link; expected a folder")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
