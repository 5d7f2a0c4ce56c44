"""What ``pipestream dlq`` prints about actions on dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.cli.output import emit_json, note, say, show_table

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from pipestream.dead_letters import ActionReport, Histogram, Preview, State


def tell_preview(act: str, preview: Preview, *, json: bool) -> None:
    """Say what an action would do."""
    decided = _by_name(preview.decided)
    if json:
        emit_json(
            {
                "dry_run": True,
                "act": act,
                "decided": decided,
                "sent": preview.sent,
                "left_open": preview.left_open,
                "histogram": preview.histogram,
            }
        )
        return
    say(f"would {act} {preview.histogram.total} dead letters{_split(decided)}; nothing was changed")
    show_counts(preview.histogram, sent=preview.sent)
    _tell_left_open(preview.left_open)


def show_counts(histogram: Histogram, sent: Counter[str] | None = None) -> None:
    """Show how many letters there are of each error, node and day, and how many go where."""
    kinds = [("error", histogram.by_error), ("node", histogram.by_node), ("day", histogram.by_day)]
    kinds += [("goes to", sent)] if sent else []
    rows = [[by, value, count] for by, counter in kinds for value, count in counter.most_common()]
    if rows:
        show_table(["by", "value", "letters"], rows, numbers=["letters"], fold=["value"])


def tell_report(report: ActionReport, *, json: bool) -> None:
    """Print what an action did."""
    decided = _by_name(report.decided)
    if json:
        emit_json(
            {
                "action_id": report.action_id,
                "act": report.act,
                "status": report.status,
                "decided": decided,
                "decided_now": report.decided_now,
                "sent": report.sent,
                "left_open": report.left_open,
            }
        )
        return
    total = sum(decided.values())
    if report.status == "done before":
        say(f"{report.action_id} was done before, with {total} dead letters{_split(decided)}; nothing to do")
        return
    earlier = f", {total - report.decided_now} of them before it was interrupted" if total > report.decided_now else ""
    say(f"{report.action_id}: {total} dead letters{_split(decided)}{earlier}")
    for topic, count in sorted(report.sent.items()):
        say(f"{count} sent to {topic}; its next drain processes them")
    _tell_left_open(report.left_open)


def _tell_left_open(reasons: Mapping[str, int]) -> None:
    for reason, count in sorted(reasons.items()):
        note(f"{count} stay open: {reason}", style="yellow")


def _by_name(counts: Mapping[State, int]) -> dict[str, int]:
    return {state.value: count for state, count in counts.items()}


def _split(decided: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{count} {state}' for state, count in sorted(decided.items()))})" if decided else ""
