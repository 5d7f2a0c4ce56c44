"""A drain's report in words, for terminals and for Airflow's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_report(report: Mapping[str, Any]) -> list[str]:
    """Return what a run did, line by line, given the values of its ``DrainReport``."""
    topic = report["topic"]
    if report["status"] == "skipped":
        return [f"skipped: {report['reason']}"]
    if report["status"] == "empty":
        return [report["reason"] or f"nothing waits in {topic}"]
    out = ", ".join(f"{count} by {edge}" for edge, count in sorted(report["documents_out"].items())) or "none"
    recovered = f" and {report['recovered_ranges']} recovered" if report["recovered_ranges"] else ""
    return [
        f"{topic}: {report['records']} records in {report['ranges']} ranges{recovered}, {report['seconds']:.1f} s",
        f"documents out: {out}; dead letters: {report['dead_letters']}",
    ]
