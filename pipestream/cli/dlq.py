"""``pipestream dlq``: look at dead letters. What changes them is in ``dlq_actions``."""

from __future__ import annotations

import heapq
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestream.cli import dlq_actions
from pipestream.cli.dlq_options import Scope, takes_scope
from pipestream.cli.dlq_report import show_counts
from pipestream.cli.options import JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, say, show_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.dead_letters import DeadLetter, Histogram, State


class StateChoice(StrEnum):
    """Which letters to list, by what was decided about them."""

    WAITING = "waiting"
    OPEN = "open"
    RELEASED = "released"
    REPLAYED = "replayed"
    QUARANTINED = "quarantined"
    PURGED = "purged"
    ALL = "all"


class Format(StrEnum):
    """How one letter is shown."""

    LETTER = "letter"
    DLQ_MESSAGE = "dlq-message"


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(
        name="list",
        epilog=examples(
            "pipestream dlq list",
            "pipestream dlq list --error 'Module*' --since PT6H --json",
            "pipestream dlq list --topic dlq.main.parse-data --quarantined",
            "pipestream dlq list --histogram",
        ),
    )(list_letters)
    group.command(
        epilog=examples(
            "pipestream dlq show dlq.main.parse-data/0/17",
            "pipestream dlq show dlq.main.parse-data/0/17 --raw letter.bin",
            "pipestream dlq show dlq.main.parse-data/0/17 --format dlq-message",
        )
    )(show)
    dlq_actions.add_to(group)
    group.command(epilog=examples("pipestream dlq history", "pipestream dlq history --json"))(history)
    app.add_typer(group, name="dlq", help="Show dead letters; replay, quarantine, release or purge them.")


@takes_scope
def list_letters(
    scope: Scope,
    state: Annotated[
        StateChoice,
        typer.Option(help="Only letters in this state; waiting: nothing was decided yet, or they were released."),
    ] = StateChoice.WAITING,
    quarantined: Annotated[bool, typer.Option("--quarantined", help="The same as --state quarantined.")] = False,
    histogram: Annotated[
        bool, typer.Option("--histogram", help="Count the letters by error, node and day, and show none.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Show the newest so many; 0 shows all.")] = 50,
    json: JsonOption = False,
) -> None:
    """List dead letters, the newest failure first: which document failed where, why and when."""
    from pipestream.dead_letters import list_dead_letters, summarize

    wanted = _states(StateChoice.QUARANTINED if quarantined else state)
    counted = _Counted(list_dead_letters(scope.settings, scope.topics, scope.selection, states=wanted))
    if histogram:
        for _ in counted:
            pass
        emit_json(counted.histogram) if json else _show_histogram(counted.histogram)
        return
    newest = heapq.nlargest(limit, counted, key=_age) if limit else sorted(counted, key=_age, reverse=True)
    if json:
        emit_json([summarize(each) for each in newest])
        return
    _show(newest)
    total = counted.histogram.total
    more = f", the newest {len(newest)} shown: --limit 0 shows all" if len(newest) < total else ""
    say(f"{total} dead letters{more}")


def show(
    letter: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="The letter, as dlq list shows it.")],
    body: Annotated[bool, typer.Option("--body", help="Include the document's text and blobs.")] = False,
    raw: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the record's value to a file, byte for byte.")
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="Everything known about the letter, or the wire's DlqMessage.")
    ] = Format.LETTER,
) -> None:
    """Print one dead letter as JSON: why it failed, its headers, and its stream without the document's text.

    With --raw and --format dlq-message, the file gets the bytes of the DlqMessage.
    """
    from google.protobuf.json_format import MessageToDict

    from pipestream.dead_letters import LetterId, describe, find_dead_letter, to_dlq_message

    found = find_dead_letter(read_settings(), LetterId.parse(letter))
    message = to_dlq_message(found, with_body=body or raw is not None)
    is_message = format_ is Format.DLQ_MESSAGE
    if raw is not None:
        data = message.SerializeToString(deterministic=True) if is_message else found.record.value or b""
        try:
            raw.write_bytes(data)
        except OSError as error:
            raise typer.BadParameter(f"{raw} cannot be written: {error.strerror}", param_hint="--raw") from None
        say(f"{len(data)} bytes in {raw}")
    elif is_message:
        emit_json(MessageToDict(message, preserving_proto_field_name=True))
    else:
        emit_json(describe(found, with_body=body))


def history(
    limit: Annotated[int, typer.Option(min=0, help="Show the newest so many; 0 shows all.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show what was done with dead letters, newest first, and which actions were interrupted."""
    from pipestream.dead_letters.log import DecisionLog

    decisions = DecisionLog(read_settings()).read()
    plans = sorted(decisions.plans.values(), key=lambda plan: plan.planned_at, reverse=True)[: limit or None]
    rows: list[dict[str, Any]] = [
        {
            "action_id": plan.action_id,
            "act": plan.act.value,
            "planned_at": plan.planned_at,
            "by": plan.by,
            "finished": not decisions.remaining(plan),
            "decided": {state.value: count for state, count in decisions.decided_by(plan.action_id).items()},
            "topics": plan.topics,
            "selection": plan.selection.to_values(),
        }
        for plan in plans
    ]
    if json:
        emit_json(rows)
        return
    show_table(
        ["action", "act", "planned (UTC)", "by", "finished", "decided", "topics"],
        [
            [
                *(row[name] for name in ("action_id", "act", "planned_at", "by", "finished")),
                ", ".join(f"{count} {state}" for state, count in row["decided"].items()) or "none",
                ", ".join(row["topics"]),
            ]
            for row in rows
        ],
        fold=["action", "topics"],
    )
    say(f"{len(rows)} actions")


class _Counted:
    """Passes letters on and counts them."""

    def __init__(self, letters: Iterator[DeadLetter]) -> None:
        from pipestream.dead_letters import Histogram

        self._letters = letters
        self.histogram = Histogram()

    def __iter__(self) -> Iterator[DeadLetter]:
        for letter in self._letters:
            self.histogram.add(letter)
            yield letter


def _states(choice: StateChoice) -> frozenset[State]:
    from pipestream.dead_letters import OPEN_STATES, State

    if choice is StateChoice.WAITING:
        return OPEN_STATES
    return frozenset(State) if choice is StateChoice.ALL else frozenset({State(choice.value)})


def _age(letter: DeadLetter) -> tuple[Any, ...]:
    return letter.failed_at, letter.letter_id


def _show(letters: list[DeadLetter]) -> None:
    show_table(
        ["letter", "state", "document", "failed at", "when (UTC)", "replays", "why"],
        [
            [
                letter.letter_id,
                letter.state.value,
                letter.doc_id,
                letter.node_id,
                letter.failed_at,
                letter.replays,
                f"{letter.error_kind}: {' '.join(letter.message.split())[:120]}",
            ]
            for letter in letters
        ],
        numbers=["replays"],
        fold=["letter", "document", "why"],
    )


def _show_histogram(histogram: Histogram) -> None:
    show_counts(histogram)
    say(f"{histogram.total} dead letters")
