"""What a run did: one value from the run to the place that shows it, be it a terminal, Airflow or a page.

It travels as JSON (``to_fields``, ``from_fields``): in the outcome file of a Spark job, in an XCom, in ``--json``.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pipestream import errors
from pipestream.errors import Concern, PipestreamError, TerminalError, TransientError
from pipestream.ledger import Tally
from pipestream.wording import counted

DRAINED, EMPTY, SKIPPED, FAILED = STATUSES = ("drained", "empty", "skipped", "failed")
_SUMMED = ("ranges", "recovered_ranges", "tally")
_COUNTED = tuple(each.name for each in fields(Tally))


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What a run did, for the caller that started it."""

    status: str
    """``drained``, ``empty`` (nothing was waiting) or ``skipped`` (someone else holds it, or it is stopped)."""
    topic: str
    reason: str = ""
    ranges: int = 0
    recovered_ranges: int = 0
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    run_id: str = ""
    lane: str = ""
    tasks: str = ""
    """How the work was cut into tasks, and why."""

    @property
    def records(self) -> int:
        return self.tally.records

    @property
    def documents_out(self) -> Mapping[str, int]:
        return self.tally.documents_out

    @property
    def dead_letters(self) -> int:
        return self.tally.dead_letters

    def to_fields(self) -> dict[str, Any]:
        """Return the report as plain values, with the counts of its tally next to the others."""
        found: dict[str, Any] = {}
        for name, value in asdict(self).items():
            found |= value if name == "tally" else {name: value}
        del found["decisions"]  # for pictures; whoever wants them reads the ledger
        return found

    def describe(self) -> list[str]:
        """Return what the run did in words, line by line, for terminals and for Airflow's log."""
        if self.status == SKIPPED:
            return [f"skipped: {self.reason}"]
        if self.status == EMPTY:
            return [self.reason or f"nothing waits in {self.topic}"]
        out = ", ".join(f"{count} by {edge}" for edge, count in sorted(self.documents_out.items())) or "none"
        recovered = f" and {self.recovered_ranges} recovered" if self.recovered_ranges else ""
        drained = f"{counted(self.records, 'record')} in {counted(self.ranges, 'range')}{recovered}"
        return [
            f"{self.topic}: {drained}, {self.seconds:.1f} s",
            f"documents out: {out}; dead letters: {self.dead_letters}",
            *([self.tasks] if self.tasks else []),
        ]


@dataclass(frozen=True, slots=True)
class DrainFailure:
    """Why a run failed."""

    error: str
    transient: bool
    """Whether the same run may be tried again."""
    kind: str = PipestreamError.__name__
    """The name of the error's class."""
    concerns: Concern = Concern.RUN
    """How much the error affects."""
    status: str = FAILED

    @classmethod
    def of(cls, error: PipestreamError) -> DrainFailure:
        return cls(str(error), error.transient, type(error).__name__, error.concerns)

    def to_error(self) -> PipestreamError:
        """Return an error of the same kind, with the same message and without the fields.

        A kind that ``pipestream.errors`` does not define becomes a TransientError or a TerminalError.
        """
        base: type[PipestreamError] = TransientError if self.transient else TerminalError
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, base)):
            kind = base
        error: PipestreamError = kind.__new__(kind, self.error)  # as unpickling does: __init__ would want the fields
        error.concerns = self.concerns
        return error

    def to_fields(self) -> dict[str, Any]:
        """Return the failure as plain values."""
        return asdict(self)

    def describe(self) -> str:
        """Return what failed, how much of the run it concerns, and why."""
        return f"{self.kind}, concerns the {self.concerns}: {self.error}"


def from_fields(values: object) -> DrainReport | DrainFailure:
    """Return what ``to_fields`` wrote. Fields of a newer version are left out.

    :raises ValueError: the values are of something else.
    """
    status = values.get("status") if isinstance(values, Mapping) else None
    if not isinstance(values, Mapping) or status not in STATUSES:
        raise ValueError(f"a drain's outcome has no status of {', '.join(STATUSES)}: is it of another version?")
    if status == FAILED:
        # A job of which nothing is known to be final is worth another try.
        return DrainFailure(
            error=str(values.get("error") or ""),
            transient=values.get("transient", True) is not False,
            kind=str(values.get("kind") or PipestreamError.__name__),
            concerns=Concern(values["concerns"]) if values.get("concerns") in list(Concern) else Concern.RUN,
        )
    known = {each.name: values[each.name] for each in fields(DrainReport) if each.name in values}
    tally = Tally(**{name: values[name] for name in _COUNTED if name in values})
    return DrainReport(**{"topic": "", **known, "tally": tally})


def join_reports(reports: Sequence[DrainReport], notes: Sequence[str], total: DrainReport) -> DrainReport:
    """Return one report for all slots of a run.

    :param notes: why slots were left alone.
    :param total: what is known of the run as a whole.
    """
    drained = any(report.status == DRAINED for report in reports)
    if not reports:
        return replace(total, status=SKIPPED, reason="; ".join(notes))
    reasons = notes if drained else [reports[0].reason, *notes]
    tasks = "; ".join(dict.fromkeys(report.tasks for report in reports if report.tasks))
    sums = {name: reduce(operator.add, (getattr(report, name) for report in reports)) for name in _SUMMED}
    return replace(
        total, status=DRAINED if drained else reports[0].status, reason="; ".join(reasons), tasks=tasks, **sums
    )


def write_outcome(file: Path | None, ended: DrainReport | DrainFailure) -> None:
    """Write how a drain job ended to its outcome file, if anyone asked for it."""
    if file is not None:
        file.write_text(json.dumps(ended.to_fields(), indent=1), encoding="utf-8")


def read_outcome(file: Path) -> DrainReport | DrainFailure | None:
    """Return what the job wrote, or None if it died before it could.

    :raises ValueError: the file is not what a drain job writes.
    """
    if not file.is_file():
        return None
    return from_fields(json.loads(file.read_text(encoding="utf-8")))
