"""Say in one line why Spark gave up on a query."""

from __future__ import annotations

_TRACEBACK = "Traceback (most recent call last):"
_OF_GRPC = "of RPC that terminated with:"


def cause_of(error: BaseException) -> str:
    """Return the first line of an error of Spark, and what a Python worker raised, if that is the reason."""
    lines = [line for line in (str(error).strip() or repr(error)).splitlines() if line.strip()]
    if lines[0].endswith(_OF_GRPC):
        return ", ".join(line.strip() for line in lines[1:3])  # the status and its details
    if _TRACEBACK not in lines:
        return lines[0]
    after = lines[lines.index(_TRACEBACK) + 1 :]
    # The frames are indented. The first line that is not names the exception.
    raised = next((line for line in after if not line[0].isspace()), "")
    return raised or lines[0]
