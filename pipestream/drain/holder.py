"""Under which name a run holds leases: its id and its process, so that a retry knows what an earlier try left."""

from __future__ import annotations

import os
import socket


def name_holder(run_id: str) -> str:
    """Return the name under which this process holds leases for a run."""
    return f"{run_id}@{socket.gethostname()}:{os.getpid()}"


def is_of_run(holder: str, run_id: str) -> bool:
    """Tell whether a holder is a process of the run, such as an earlier try of it."""
    return holder.startswith(f"{run_id}@")
