"""What a drain job says of itself when it ends: a small JSON file, for whoever submitted it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestream.drain.report import DrainReport
from pipestream.errors import PipestreamError

STATUSES = ("drained", "empty", "skipped", "failed")


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a drain ended, with everything the job wrote (counts and names, never a document)."""

    status: str
    reason: str
    error: str
    transient: bool
    fields: dict[str, Any]


def write_outcome(file: Path | None, ended: DrainReport | PipestreamError) -> None:
    """Write how a drain ended, if anyone asked for it."""
    if file is None:
        return
    if isinstance(ended, PipestreamError):
        outcome = {"status": "failed", "error": str(ended), "transient": ended.transient}
    else:
        outcome = ended.as_dict()
    file.write_text(json.dumps(outcome, indent=1), encoding="utf-8")


def read_outcome(file: Path) -> JobOutcome | None:
    """Return what the job wrote, or None if it died before it could.

    :raises ValueError: the file is not what a drain job writes.
    """
    if not file.is_file():
        return None
    fields = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(fields, dict) or fields.get("status") not in STATUSES:
        raise ValueError(f"the drain job's outcome has no status of {', '.join(STATUSES)}: is it another version?")
    return JobOutcome(
        status=fields["status"],
        reason=str(fields.get("reason") or ""),
        error=str(fields.get("error") or ""),
        # A job of which nothing is known to be final is worth another try.
        transient=fields.get("transient", True) is not False,
        fields=fields,
    )
