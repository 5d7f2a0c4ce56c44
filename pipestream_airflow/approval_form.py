"""What a person asks for in a run of an approval DAG: its form, and the form's values checked as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from pipestream.dead_letters import Selection
from pipestream.dead_letters.selection import EVERYTHING
from pipestream.errors import RequestInvalid
from pipestream.times import to_utc
from pipestream_airflow.run_form import MAX_IDS, MAY_BE_EMPTY, TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ACTIONS: dict[str, str] = {
    "purge": "Give up dead letters: they are no longer shown, and never replayed.",
    "replay": "Send dead letters back to the topics that they came from, however many there are.",
    "rebaseline": "Move the heads of a topic: forward gives up records, back drains them again.",
}
"""What an approval DAG does once somebody has approved it. This is the only list of them."""
_LETTER_FIELDS = ("nodes", "errors", "doc_ids", "since", "until", "limit")
_HEAD_FIELDS = ("topic", "to", "offsets")


@dataclass(frozen=True, slots=True)
class ApprovalParams:
    """The filled-in form of one run."""

    action: str
    reason: str = ""
    selection: Selection = EVERYTHING
    limit: int | None = None
    topic: str = ""
    to: str = ""
    offsets: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> ApprovalParams:
        """Take the parameters out of a task's context; Airflow has checked each of them against the form.

        :raises RequestInvalid: fields contradict each other, or a value cannot be read.
        """
        action = params["action"]
        _refuse_unused(action, params)
        if action != "rebaseline":
            return cls(action, params["reason"].strip(), _selection(params), params["limit"])
        if not params["topic"]:
            raise RequestInvalid("rebaseline needs a topic: choose the one whose heads move")
        if bool(params["to"]) == bool(params["offsets"]):
            raise RequestInvalid("rebaseline needs either to, such as latest, or offsets, such as 0:1200: fill in one")
        pairs = [each.split(":") for each in params["offsets"] or ()]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        if len(offsets) < len(pairs):
            raise RequestInvalid("offsets names a partition twice: give one offset for each")
        return cls(
            action,
            params["reason"].strip(),
            topic=params["topic"],
            to=params["to"].strip(),
            offsets=tuple(sorted(offsets.items())),
        )

    @property
    def target(self) -> str | dict[int, int]:
        """Return where the heads are to be moved."""
        return self.to or dict(self.offsets)


def approval_form(topics: Sequence[str]) -> dict[str, Param]:
    """Return the form.

    :param topics: the topics that the graph drains.
    """
    return {
        "action": Param(
            "replay",
            title="Action",
            type="string",
            enum=sorted(ACTIONS),
            description_md="\n".join(f"- **{action}**: {ACTIONS[action]}" for action in sorted(ACTIONS)),
        ),
        "reason": Param(
            "",
            title="Reason",
            type="string",
            maxLength=1_000,
            description_md="Why. Whoever is asked for approval reads it.",
        ),
        "nodes": _texts(
            "Nodes", r"**purge** and **replay**: patterns of the nodes that letters failed at, such as p-\*."
        ),
        "errors": _texts("Errors", r"**purge** and **replay**: patterns of the names of errors, such as Module\*."),
        "doc_ids": _texts("Document ids", "**purge** and **replay**: only these documents."),
        "since": _time("Since", "letters whose last failure was at this time or later"),
        "until": _time("Until", "letters whose last failure was before this time; empty: before the dry run"),
        "limit": Param(
            None,
            title="Limit",
            type=["null", "integer"],
            minimum=1,
            description_md="**purge** and **replay**: most letters. Empty: as many as the dry run finds.",
        ),
        "topic": Param(
            "",
            title="Topic",
            type="string",
            enum=["", *topics],
            description_md="**rebaseline**: the topic whose heads move.",
        ),
        "to": Param(
            "",
            title="To",
            type="string",
            maxLength=100,
            description_md="**rebaseline**: earliest, latest, a time with its zone, or how far back, as PT6H.",
        ),
        "offsets": Param(
            [],
            title="Offsets",
            type=MAY_BE_EMPTY,
            items={"type": "string", "pattern": r"^\d{1,9}:\d{1,18}$"},
            uniqueItems=True,
            description_md="**rebaseline**, instead of the field To: PARTITION:OFFSET, one a line.",
        ),
    }


def _refuse_unused(action: str, params: Mapping[str, Any]) -> None:
    """Refuse a field that the action would ignore: the person who filled it in expects something of it."""
    unused = _LETTER_FIELDS if action == "rebaseline" else _HEAD_FIELDS
    if given := [name for name in unused if params[name]]:
        others = "purge or replay" if action == "rebaseline" else "rebaseline"
        raise RequestInvalid(
            f"{action} does not use {', '.join(given)}: leave that empty, or choose the action {others}"
        )


def _selection(params: Mapping[str, Any]) -> Selection:
    since, until = (_moment(name, params[name]) for name in ("since", "until"))
    if since and until and since >= until:
        raise RequestInvalid(f"since ({since}) must be before until ({until}): exchange them")
    nodes, errors, doc_ids = (tuple(sorted(params[name] or ())) for name in ("nodes", "errors", "doc_ids"))
    return Selection(nodes=nodes, errors=errors, doc_ids=doc_ids, since=since, until=until)


def _moment(name: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise RequestInvalid(f"{name} is not a time: {text!r} ({error}); write e.g. 2026-03-01T00:00:00Z") from None
    return to_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _texts(title: str, description: str) -> Param:
    items = {"type": "string", "minLength": 1}
    return Param(
        [], title=title, type=MAY_BE_EMPTY, items=items, uniqueItems=True, maxItems=MAX_IDS, description_md=description
    )


def _time(title: str, meaning: str) -> Param:
    return Param(
        None,
        title=title,
        type=["null", "string"],
        format="date-time",
        pattern=TIME,
        description_md=f"**purge** and **replay**: {meaning}.",
    )
