"""Look at other processes."""

from __future__ import annotations

import psutil


def runs(pid: int) -> bool:
    """Tell whether a process runs. One that has ended and is not collected by its parent yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
