"""What a person may choose for one run of a graph's DAG: the form, and what was filled in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from pipestream.drain.backfill import Backfill, BackfillInvalid
from pipestream.times import to_utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MODES: dict[str, str] = {
    "catch_up": "Drain what waits in each topic, from where the last run ended.",
    "time_range": (
        "Drain the records of a time range again from the intake topics, in a lane of their own that moves no live "
        "head, then through the rest of the graph. Repeated for the same time range, it does nothing."
    ),
}
"""The modes that a run may have, and what each does. This is the only list of them."""
TIME = r"^(\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?)?$"
"""ISO 8601. The form says `date-time`, so the UI shows a calendar, but Airflow does not check the value."""


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
        """Take the parameters out of a task's context; Airflow has checked them against the form.

        :raises BackfillInvalid: a value has the form of a time but is not one, such as 30 February.
        """
        return cls(
            mode=params["mode"],
            topics=frozenset(params["topics"]),
            budget=params["budget"],
            accept_failures=params["accept_failures"],
            since=_moment("since", params.get("since")),
            until=_moment("until", params.get("until")),
        )

    def backfill(
        self, run_type: str, interval: tuple[datetime | None, datetime | None], run_after: datetime
    ) -> Backfill | None:
        """Return the time range whose records are drained again, if this run is a backfill.

        Its id is derived from the time range, so a repeat is recognised, whatever the user and the time zone.

        :param run_type: Airflow's own backfills create one run per data interval: that interval is the time range.
        :param run_after: when the run was requested, which is the end of a time range without ``until``.
        :raises BackfillInvalid: there is no such time range.
        """
        # Airflow's times are pendulum's. They become ours here, before the core sees them.
        if run_type == "backfill":
            since, until = (moment and to_utc(moment) for moment in interval)
            if since is None or until is None or since >= until:
                raise BackfillInvalid(
                    "this backfill's run has no data interval, so there is no time range to drain again: delete the "
                    "run and create the backfill again, or trigger the DAG in the mode time_range"
                )
        elif self.mode != "time_range":
            return None
        elif self.since is None and self.until is None:
            raise BackfillInvalid("mode time_range needs since, until or both")
        else:
            since, until = self.since, self.until or to_utc(run_after)
        return Backfill(f"time-{_stamp(since)}-{_stamp(until)}", since=since, until=until)


def _stamp(moment: datetime | None) -> str:
    if moment is None:
        return "open"
    in_utc = to_utc(moment)
    return f"{in_utc:%Y%m%dt%H%M%S}" + (f"{in_utc:%f}" if in_utc.microsecond else "")


def _moment(name: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BackfillInvalid(f"{name} is not a time: {text!r} ({error}); write e.g. 2026-03-01T00:00:00Z") from None
    return to_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


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
            description_md="Most offsets this run drains from each slot of each topic; a time range is drained whole.",
        ),
        "since": Param(
            None,
            title="Since",
            type=["null", "string"],
            format="date-time",
            pattern=TIME,
            description_md="`time_range`: records from this time on; empty: from the topic's beginning.",
        ),
        "until": Param(
            None,
            title="Until",
            type=["null", "string"],
            format="date-time",
            pattern=TIME,
            description_md="`time_range`: records before this time; empty: up to when the run was requested.",
        ),
        "accept_failures": Param(
            False,
            title="Accept failures",
            type="boolean",
            description_md=(
                "Write dead letters even if most records of a range fail. Otherwise such a run stops, "
                "because the records are then seldom the cause."
            ),
        ),
    }
