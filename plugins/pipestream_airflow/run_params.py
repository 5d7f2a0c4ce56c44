"""What a person may choose for one run of a graph's DAG: the form, and what was filled in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MODES: dict[str, str] = {
    "catch_up": "Drain what waits in each topic, from where the last run ended.",
    "time_range": (
        "Drain the records of a time again from the intake topics, in a lane of their own that moves no live head, "
        "then carry them on through the graph. Repeated for the same time, it does nothing."
    ),
}
"""The modes that a run may have, and what each does. The only list of them."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time whose records are drained again. Open at a side that is None."""

    since: datetime | None
    until: datetime | None

    def arguments(self) -> list[str]:
        """Return what the drain job is told of it. The id follows from the time, so a repeat is known as one."""
        sides = [f"{side:%Y%m%dt%H%M%S}" if side else "open" for side in (self.since, self.until)]
        told = ["--backfill-id", f"time-{sides[0]}-{sides[1]}"]
        told += ["--since", self.since.isoformat()] if self.since else []
        return told + (["--until", self.until.isoformat()] if self.until else [])


@dataclass(frozen=True, slots=True)
class RunParams:
    """The filled-in form of one run."""

    mode: str
    topics: frozenset[str]
    budget: int
    accept_failures: bool
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> RunParams:
        """Take the parameters out of a task's context; Airflow has checked them against the form."""
        return cls(
            mode=params["mode"],
            topics=frozenset(params["topics"]),
            budget=params["budget"],
            accept_failures=params["accept_failures"],
            since=_moment(params.get("since")),
            until=_moment(params.get("until")),
        )

    def span(self, run_type: str, interval: tuple[datetime | None, datetime | None]) -> Span | None:
        """Return the time whose records are drained again, if this run is a backfill.

        Airflow's own backfills make one run per data interval: that interval is the time.

        :raises ValueError: the form asks for a time range and says no time.
        """
        if run_type == "backfill":
            start, end = interval
            return Span(start, end) if start and end and start < end else None
        if self.mode != "time_range":
            return None
        if self.since is None and self.until is None:
            raise ValueError("mode time_range needs since, until or both")
        return Span(self.since, self.until)

    def arguments(self) -> list[str]:
        """Return what the drain job is told of this."""
        return ["--budget", str(self.budget), *(["--accept-failures"] if self.accept_failures else [])]


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def form(topics: Sequence[str], budget: int) -> dict[str, Param]:
    """Return the form: each parameter with its default, which is what a scheduled run uses."""
    return {
        "mode": Param(
            "catch_up",
            title="Mode",
            type="string",
            enum=sorted(MODES),
            description_md="\n".join(f"- `{mode}`: {MODES[mode]}" for mode in sorted(MODES)),
        ),
        "topics": Param(
            list(topics),
            title="Topics",
            type="array",
            items={"type": "string", "enum": list(topics)},
            examples=list(topics),
            uniqueItems=True,
            description_md="The topics to drain; the others are skipped in this run.",
        ),
        "budget": Param(
            budget,
            title="Budget",
            type="integer",
            minimum=1,
            description_md="Most offsets this run drains from each topic.",
        ),
        "since": Param(
            None,
            title="Since",
            type=["null", "string"],
            format="date-time",
            description_md="`time_range`: records from this time on; empty: from the topic's beginning.",
        ),
        "until": Param(
            None,
            title="Until",
            type=["null", "string"],
            format="date-time",
            description_md="`time_range`: records before this time; empty: up to now.",
        ),
        "accept_failures": Param(
            False,
            title="Accept failures",
            type="boolean",
            description_md=(
                "Write dead letters even if most records of a range fail. Otherwise such a run stops, "
                "because then the records are seldom the cause."
            ),
        ),
    }
