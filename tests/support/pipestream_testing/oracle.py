"""The one judge of every fault test: where did each document go, and does the ledger tell the same?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field

from pipestream.documents.fetch import fetch_documents
from pipestream.documents.references import place_of
from pipestream.objects.store import open_store
from pipestream.topics.required import required_topics
from pipestream_testing.length import repeat_command
from pipestream_testing.pipeline import FoundRecord, Pipeline


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the documents of one round."""

    lost: int
    duplicated: int
    untiled: tuple[str, ...] = ()
    """What is wrong with the ledger; nothing if its entries join from the start of each topic to its end."""


def judge(pipeline: Pipeline, sent: Collection[str], drained: Iterable[str]) -> Verdict:
    """Count the documents that are not exactly once in the outputs or the dead letters.

    A document whose output refers to an object that is not in the store is lost as well.

    :param sent: the ids of all documents that went in.
    :param drained: the topics they went into or were taken on from; every other topic of the graph is a way out.
    """
    drained = list(drained)
    names = [spec.name for spec in required_topics(pipeline.graph, pipeline.settings)]
    records = pipeline.read(*(name for name in names if name not in drained))
    found = Counter(each.doc_id for each in records)
    missing = _without_object(pipeline, records)
    return Verdict(
        lost=sum(1 for doc_id in sent if doc_id not in found or doc_id in missing),
        # A document that was never sent counts too: nothing may come out that did not go in.
        duplicated=sum(times - (doc_id in sent) for doc_id, times in found.items()),
        untiled=tuple(problem for topic in drained if (problem := _untiled(pipeline, topic))),
    )


def _without_object(pipeline: Pipeline, records: Iterable[FoundRecord]) -> set[str]:
    """Return the documents whose object is gone; a dead letter keeps its record, so it needs none."""
    referring = [
        each for each in records if each.stream.HasField("document_ref") and not each.record.topic.startswith("dlq.")
    ]
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        objects = fetch_documents(store, [place_of(each.stream) for each in referring])
    pairs = zip(referring, objects, strict=True)
    return {each.doc_id for each, found in pairs if not isinstance(found, bytes)}


def _untiled(pipeline: Pipeline, topic: str) -> str:
    try:
        pipeline.check_ledger_tiles(topic)
    except AssertionError as error:
        return str(error)
    return ""


@dataclass(slots=True)
class Rounds:
    """The verdicts of a test run, by fault, and what is told of them at its end."""

    verdicts: dict[str, list[tuple[Verdict, float | None]]] = field(default_factory=dict)
    seeds: list[tuple[str, int]] = field(default_factory=list)
    """Of tests that choose at random, by their ids."""

    def add(self, fault: str, verdict: Verdict, seconds: float | None = None) -> None:
        """Keep a round's verdict, then fail if it is not clean: the table must tell the failures as well.

        :param seconds: from the fault to the end of the run that put everything right.
        """
        self.verdicts.setdefault(fault, []).append((verdict, seconds))
        assert verdict == Verdict(0, 0), f"{fault}: {verdict}"

    def add_seed(self, test: str, seed: int) -> None:
        """Keep what a test chooses by, before it begins: one that fails must be told as well."""
        self.seeds.append((test, seed))

    def dump(self) -> str:
        """Return all of it as text, for another process to ``load``."""
        verdicts = [(fault, asdict(verdict), took) for fault, all_ in self.verdicts.items() for verdict, took in all_]
        return json.dumps({"verdicts": verdicts, "seeds": self.seeds})

    def load(self, text: str) -> None:
        """Add what another process found."""
        found = json.loads(text)
        for fault, values, seconds in found["verdicts"]:
            verdict = Verdict(**{**values, "untiled": tuple(values["untiled"])})
            self.verdicts.setdefault(fault, []).append((verdict, seconds))
        self.seeds += [(test, seed) for test, seed in found["seeds"]]

    def summary(self) -> list[str]:
        """Return the lines to end a test run with: the table, and how to repeat what was chosen at random."""
        lines = self._table() if self.verdicts else []
        if self.seeds:
            lines += ["", "each of these makes the same choices again:"]
        return lines + [repeat_command(test, seed) for test, seed in self.seeds]

    def _table(self) -> list[str]:
        width = max((len(fault) for fault in self.verdicts), default=0)
        lines = [f"{'fault':{width}}  rounds  lost  duplicated  ledger  seconds to recover"]
        for fault, rounds in self.verdicts.items():
            lost, duplicated, untiled = _totals(rounds)
            took = sorted(seconds for _, seconds in rounds if seconds is not None)
            span = f"{took[len(took) // 2]:.1f} (worst {took[-1]:.1f})" if len(took) > 1 else f"{sum(took):.1f}"
            ledger = "torn" if untiled else "tiles"
            recovery = span if took else "-"
            lines.append(f"{fault:{width}}  {len(rounds):6}  {lost:4}  {duplicated:10}  {ledger:6}  {recovery}")
        return lines

    def line(self, failed_tests: int = 0) -> str:
        """Return the sum of it all in one line; nothing where there was no round.

        :param failed_tests: a test that failed before its verdict is in none of the other numbers.
        """
        if not self.verdicts:
            return ""
        rounds = [each for found in self.verdicts.values() for each in found]
        lost, duplicated, untiled = _totals(rounds)
        ledger = f"ledger torn in {untiled} rounds" if untiled else "ledger tiles"
        failed = f"; {failed_tests} tests failed" if failed_tests else ""
        return f"faults: {len(rounds)} rounds, {lost} lost, {duplicated} duplicated, {ledger}{failed}"


def _totals(rounds: Iterable[tuple[Verdict, float | None]]) -> tuple[int, int, int]:
    verdicts = [verdict for verdict, _ in rounds]
    return (
        sum(verdict.lost for verdict in verdicts),
        sum(verdict.duplicated for verdict in verdicts),
        sum(bool(verdict.untiled) for verdict in verdicts),
    )
