"""Which dead letters an operator means. Pure, and plain data, so that a plan can keep it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Self

from pipestream.dead_letters.letter import DeadLetter, LetterId
from pipestream.errors import names_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters that all must hold; one that is empty holds for every letter.

    Nodes and error kinds are patterns with ``*``, ``?`` and ``[…]``, case-sensitive. An error kind that was
    renamed is found under each of its names. Times are those of the last failure, ``since`` included and ``until``
    not; both must know their time zone.
    """

    nodes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    letters: tuple[LetterId, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    graphs: tuple[str, ...] = ()
    """The graphs that letters failed in: two may share a datasource. A letter that does not say it is of each."""

    def __post_init__(self) -> None:
        if any(moment is not None and moment.tzinfo is None for moment in (self.since, self.until)):
            raise ValueError("since and until need a time zone")

    def matches(self, letter: DeadLetter) -> bool:
        return (
            _any_matches(self.nodes, letter.node_id)
            and any(_any_matches(self.errors, name) for name in names_of(letter.error_kind))
            and (not self.doc_ids or letter.doc_id in self.doc_ids)
            and (not self.letters or letter.letter_id in self.letters)
            and (not self.graphs or letter.graph_id in ("", *self.graphs))
            and (self.since is None or letter.failed_at >= self.since)
            and (self.until is None or letter.failed_at < self.until)
        )

    def to_values(self) -> dict[str, Any]:
        """Return it as JSON can write it."""
        return {
            "nodes": list(self.nodes),
            "errors": list(self.errors),
            "doc_ids": list(self.doc_ids),
            "letters": [str(letter) for letter in self.letters],
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "graphs": list(self.graphs),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            nodes=tuple(values["nodes"]),
            errors=tuple(values["errors"]),
            doc_ids=tuple(values["doc_ids"]),
            letters=tuple(LetterId.parse(text) for text in values["letters"]),
            since=datetime.fromisoformat(values["since"]) if values["since"] else None,
            until=datetime.fromisoformat(values["until"]) if values["until"] else None,
            # Plans that were written before there was this filter do not have it.
            graphs=tuple(values.get("graphs", ())),
        )


EVERYTHING = Selection()


def _any_matches(patterns: Iterable[str], value: str) -> bool:
    patterns = tuple(patterns)
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)
