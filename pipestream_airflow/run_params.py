"""What a person chose for one run of a graph's DAG, read from the form (``run_form.py``) and checked as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pipestream.drain.backfill import Backfill, BackfillInvalid, parse_offsets
from pipestream.errors import RequestInvalid
from pipestream.times import to_utc
from pipestream.topic_names import is_intake

if TYPE_CHECKING:
    from collections.abc import Mapping

MODES: dict[str, str] = {
    "catch_up": "Drain what waits in each topic, from where the last run ended.",
    "time_range": (
        "Drain the records of a time range again from the intake topics, in a lane of their own that moves no live "
        "head, then through the rest of the graph. Repeated for the same time range, it does nothing."
    ),
    "offset_range": "The same for offsets of one intake topic.",
    "documents": "The same for some documents: give their ids, and a time range if you know it.",
    "dead_letters": "Send dead letters back to the topics that they came from, by the filters, then drain what waits.",
}
"""The modes that a run may have, and what each does. This is the only list of them."""
_USED_BY: dict[str, tuple[str, ...]] = {
    "since": ("time_range", "documents", "dead_letters"),
    "until": ("time_range", "documents", "dead_letters"),
    "offsets": ("offset_range",),
    "doc_ids": ("documents", "dead_letters"),
    "nodes": ("dead_letters",),
    "errors": ("dead_letters",),
}
"""Which modes look at a field. In another mode it would be ignored, so a value there is refused."""
_AGAIN = ("time_range", "offset_range", "documents")
"""The modes that drain records again."""
_BACKFILL = "backfill"
"""The type of the runs of a backfill that was created in Airflow."""


@dataclass(frozen=True, slots=True)
class RunParams:
    """The filled-in form of one run."""

    mode: str
    topics: frozenset[str]
    budget: int
    accept_failures: bool
    since: datetime | None = None
    until: datetime | None = None
    offsets: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    graph_version: str = "now"
    dry_run: bool = False

    @classmethod
    def read(cls, params: Mapping[str, Any], run_type: str = "manual") -> RunParams:
        """Take the parameters out of a task's context; Airflow has checked each of them against the form.

        :param run_type: Airflow's type of the run.
        :raises RequestInvalid: two fields contradict each other, or a value has the form of a time but is not one.
        """
        read = cls(
            mode=params["mode"],
            topics=frozenset(params["topics"]),
            budget=params["budget"],
            accept_failures=params["accept_failures"],
            since=_moment("since", params.get("since")),
            until=_moment("until", params.get("until")),
            offsets=tuple(sorted(params.get("offsets") or ())),
            doc_ids=tuple(sorted(params.get("doc_ids") or ())),
            nodes=tuple(sorted(params.get("nodes") or ())),
            errors=tuple(sorted(params.get("errors") or ())),
            graph_version=params.get("graph_version") or "now",
            dry_run=bool(params.get("dry_run")),
        )
        read._check(is_backfill=run_type == _BACKFILL)
        return read

    def _check(self, *, is_backfill: bool) -> None:
        if is_backfill and self.mode != "catch_up":
            raise BackfillInvalid(
                f"each run of this backfill drains its own interval, so the mode {self.mode} would be ignored: create "
                f"the backfill without a mode, or trigger the DAG in that mode"
            )
        for name, modes in _USED_BY.items():
            if getattr(self, name) and self.mode not in modes:
                raise RequestInvalid(
                    f"{name} is of no use in the mode {self.mode}: empty it, or choose the mode {' or '.join(modes)}"
                )
        if self.mode == "time_range" and self.since is None and self.until is None:
            raise BackfillInvalid("mode time_range needs since, until or both")
        if self.since and self.until and self.since >= self.until:
            raise BackfillInvalid(f"since ({self.since}) must be before until ({self.until}): exchange them")
        if self.mode == "documents" and not self.doc_ids:
            raise BackfillInvalid("mode documents needs doc_ids: enter one id a line")
        if self.mode == "offset_range":
            parse_offsets(self.offsets)
            if not self.offsets:
                raise BackfillInvalid("mode offset_range needs offsets, such as 0:100-200")
            if sum(map(is_intake, self.topics)) != 1:
                raise BackfillInvalid("mode offset_range is about one intake topic: leave one of them in topics")
        if self.graph_version == "then" and self.mode not in _AGAIN and not is_backfill:
            raise BackfillInvalid(
                f"graph_version then is of a range that is drained again, and the mode {self.mode} drains what waits: "
                f"choose now, or the mode {', '.join(_AGAIN[:-1])} or {_AGAIN[-1]}"
            )

    def backfill(
        self, run_type: str, interval: tuple[datetime | None, datetime | None], run_after: datetime
    ) -> Backfill | None:
        """Return the range whose records are drained again, if this run is a backfill.

        Its id is derived from what it covers, so a repeat is recognised, whatever the user and the time zone.

        :param run_type: Airflow's own backfills create one run per data interval: that interval is the time range.
        :param run_after: when the run was requested, which is the end of a time range without ``until``.
        :raises BackfillInvalid: there is no such range.
        """
        # Airflow's times are pendulum's. They become ours here, before the core sees them.
        asked_at = to_utc(run_after)
        if run_type == _BACKFILL:
            since, until = (moment and to_utc(moment) for moment in interval)
            if since is None or until is None or since >= until:
                raise BackfillInvalid(
                    "this backfill's run has no data interval, so there is no time range to drain again: delete the "
                    "run and create the backfill again, or trigger the DAG in the mode time_range"
                )
            return Backfill(f"time-{_stamp(since)}-{_stamp(until)}", since=since, until=until)
        if self.mode == "time_range":
            since, until = self.since, self.until or asked_at
            return Backfill(f"time-{_stamp(since)}-{_stamp(until)}", since=since, until=until)
        if self.mode == "offset_range":
            return Backfill(f"offsets-{_digest(self.offsets)}", offsets=parse_offsets(self.offsets))
        if self.mode == "documents":
            until = self.until or asked_at
            name = _digest((*self.doc_ids, _stamp(self.since), _stamp(until)))
            return Backfill(f"documents-{name}", since=self.since, until=until, doc_ids=self.doc_ids)
        return None


def _digest(parts: tuple[str, ...]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:12]


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
