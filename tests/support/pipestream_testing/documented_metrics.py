"""The metrics that ``docs/metrics.md`` promises."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def documented_metrics() -> set[str]:
    """Return the names in the tables of the page."""
    return set(re.findall(r"^\| `(pipestream_\w+)`", _PAGE.read_text(), re.MULTILINE))
