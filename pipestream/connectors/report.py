"""What one ingestion did, for people and for the log. Its size is bounded, however large the source is."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipestream.connectors.connector import LeftOut, Unreadable

MAX_FAILED = 1_000
"""Failures that are listed; beyond them they are only counted."""
_MAX_REASONS = 50
_MAX_EXAMPLES = 5
_OTHER = "other reasons"


@dataclass(slots=True)
class Tally:
    """How many were left out for one reason, and the first of them."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class IngestReport:
    """What one ingestion did."""

    datasource_id: str
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    published: int = 0
    """Published references, including those that an earlier, interrupted ingestion had left."""
    failed: list[Unreadable] = field(default_factory=list)
    """What could not be read, and why: the first thousand."""
    failed_count: int = 0
    left_out: dict[str, Tally] = field(default_factory=dict)
    """What was left out on purpose, by reason."""
    stopped: str = ""
    """Why the run ended before the source did; empty if it did not."""
    skipped: str = ""
    """Why the ingestion was skipped; empty if it was not."""

    @property
    def documents(self) -> int:
        return self.new + self.changed + self.unchanged

    @property
    def left_out_count(self) -> int:
        return sum(each.count for each in self.left_out.values())

    def note_failed(self, item: Unreadable) -> None:
        self.failed_count += 1
        if len(self.failed) < MAX_FAILED:
            self.failed.append(item)

    def note_left_out(self, item: LeftOut) -> None:
        reason = item.reason if item.reason in self.left_out or len(self.left_out) < _MAX_REASONS else _OTHER
        tally = self.left_out.setdefault(reason, Tally())
        tally.count += 1
        if len(tally.examples) < _MAX_EXAMPLES:
            tally.examples.append(item.source)

    def counts(self) -> dict[str, object]:
        """Return the numbers, as the command line and Airflow show them."""
        return {
            "datasource_id": self.datasource_id,
            "documents": self.documents,
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "published": self.published,
            "failed_count": self.failed_count,
            "left_out": {reason: each.count for reason, each in sorted(self.left_out.items())},
            "stopped": self.stopped,
        }
