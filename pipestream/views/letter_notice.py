"""What a run that left dead letters has to say about them, to whoever is notified.

A run is worth a notice if the share of dead letters in one of its topics is high, or if it has an error that no other
run had. An error is new if none of the letters that the graph's dead-letter topics still hold has its fingerprint; of
each partition, the last ``MOST_READ`` are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipestream.dead_letters.browse import dead_letter_topics
from pipestream.dead_letters.fingerprint import fingerprint
from pipestream.dead_letters.letter import DeadLetter, read_letter
from pipestream.kafka.scan import find_held, scan
from pipestream.wording import counted

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings
    from pipestream.views.run_summary import RunSummary

MOST_READ = 20_000
"""Letters of each partition that are looked at; reading them takes about a second."""
_MESSAGE_CHARACTERS = 200
_REASONS_TOLD = 5


@dataclass(frozen=True, slots=True)
class LetterReason:
    """Why letters of a run failed."""

    fingerprint: str
    error: str
    node: str
    message: str
    """Of one of them."""
    count: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class LetterNotice:
    """What is told about the dead letters of one run."""

    graph_id: str
    run: str
    count: int
    share: float
    """Of the records of the topic below; the largest of all topics of the run."""
    topic: str
    reasons: tuple[LetterReason, ...]
    """The most frequent first."""
    link: str = ""
    """Where the letters are shown."""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        return tuple(reason.fingerprint for reason in self.reasons)

    @property
    def has_new_error(self) -> bool:
        return any(reason.is_new for reason in self.reasons)

    @property
    def subject(self) -> str:
        new = ", with a new error" if self.has_new_error else ""
        return f"{self.graph_id}: {counted(self.count, 'dead letter')}{new}"

    @property
    def message(self) -> str:
        """Return the whole notice as plain text."""
        lines = [self.subject, f"{self.share:.1%} of the records of {self.topic}, in {self.run}"]
        for reason in self.reasons[:_REASONS_TOLD]:
            kind = "new" if reason.is_new else "known"
            lines.append(
                f"{reason.count} x {reason.error} at {reason.node} ({kind}, {reason.fingerprint}): {reason.message}"
            )
        if (more := len(self.reasons) - _REASONS_TOLD) > 0:
            lines.append(f"and {more} more reasons")
        return "\n".join([*lines, *filter(None, [self.link])])


def find_notice(summary: RunSummary, graph: Graph, settings: Settings, *, link: str = "") -> LetterNotice | None:
    """Return what is to be told about a run's dead letters; None if it has none, or only few of a known kind.

    :raises BrokerUnavailable: Kafka did not answer.
    """
    if not summary.dead_letters:
        return None
    ranges = find_held(settings, dead_letter_topics([graph], settings), committed=True)
    recent = [replace(each, start=max(each.start, each.end - MOST_READ)) for each in ranges]
    letters = (read_letter(record) for record in scan(settings, recent, committed=True))
    own = (letter for letter in letters if letter.graph_id in ("", graph.graph_id))
    notice = make_notice(summary, graph.graph_id, group_reasons(own, summary.run), link)
    return notice if notice.has_new_error or notice.share > settings.notify_share else None


def make_notice(summary: RunSummary, graph_id: str, reasons: tuple[LetterReason, ...], link: str) -> LetterNotice:
    """Return the notice about a run. Pure."""
    shares = {each.topic: each.dead_letters / max(1, each.documents_in) for each in summary.topics}
    topic = max(shares, key=lambda each: shares[each])
    return LetterNotice(graph_id, summary.run, summary.dead_letters, shares[topic], topic, reasons, link)


def group_reasons(letters: Iterable[DeadLetter], run: str) -> tuple[LetterReason, ...]:
    """Return why the letters of a run failed, and whether letters of other runs failed for the same reason. Pure."""
    counts: Counter[str] = Counter()
    examples: dict[str, DeadLetter] = {}
    known: set[str] = set()
    for letter in letters:
        print_ = fingerprint(letter)
        if letter.run_id.startswith(f"{run}/"):
            counts[print_] += 1
            examples.setdefault(print_, letter)
        else:
            known.add(print_)
    return tuple(
        LetterReason(
            fingerprint=print_,
            error=examples[print_].error_kind or "unknown",
            node=examples[print_].node_id or "unknown",
            message=" ".join(examples[print_].message.split())[:_MESSAGE_CHARACTERS],
            count=count,
            is_new=print_ not in known,
        )
        for print_, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
