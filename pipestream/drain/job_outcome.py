"""The file in which a drain job says how it ended, for whoever submitted it."""

from __future__ import annotations

import json
from pathlib import Path

from pipestream.drain.report import DrainFailure, DrainReport, from_fields


def write_outcome(file: Path | None, ended: DrainReport | DrainFailure) -> None:
    """Write how a drain ended, if anyone asked for it."""
    if file is not None:
        file.write_text(json.dumps(ended.to_fields(), indent=1), encoding="utf-8")


def read_outcome(file: Path) -> DrainReport | DrainFailure | None:
    """Return what the job wrote, or None if it died before it could.

    :raises ValueError: the file is not what a drain job writes.
    """
    if not file.is_file():
        return None
    return from_fields(json.loads(file.read_text(encoding="utf-8")))
