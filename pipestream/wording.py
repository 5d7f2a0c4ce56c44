"""Words for people: what the commands, the logs and the pages say alike."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a number with what it counts: ``1 record``, ``2 records``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
