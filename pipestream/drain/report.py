"""What a run did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What a run did, for whoever started it."""

    status: str
    """``drained``, ``empty`` (nothing was waiting) or ``skipped`` (someone else holds it, or it is stopped)."""
    topic: str
    reason: str = ""
    ranges: int = 0
    recovered_ranges: int = 0
    records: int = 0
    documents_out: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
