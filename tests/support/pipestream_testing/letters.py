"""A pipeline that makes dead letters, for tests of what becomes of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from pipestream.dead_letters import (
    OPEN_STATES,
    Act,
    ActionReport,
    ActionRequest,
    DeadLetter,
    Selection,
    State,
    list_dead_letters,
    run_action,
)
from pipestream.kafka.records import header
from pipestream.settings import Settings
from pipestream_testing.pipeline import Pipeline

FAILING = "python:pipestream_testing.steps:fail_on_bad"
PASSING = "python:pipestream_testing.steps:pass_on"


class Letters:
    """A pipeline whose second node fails on documents called ``bad…``, and what comes of its dead letters."""

    def __init__(self, settings: Settings, unique: str, folder: Path, graph_text: str) -> None:
        """
        :param graph_text: a graph with a node ``second``, and ``unique`` in its names.
        """
        self.settings = settings
        self.unique = unique
        self._folder = folder
        self._text = graph_text
        self._runs = 0
        self.intake = f"intake.{unique}"
        self.second = f"pipestream.{unique}.second"
        self.happy_end = f"pipestream.{unique}.happy-end"
        self.dead = f"dlq.{unique}.second"
        self.pipeline = self.with_graph("broken")
        self.pipeline.create_topics()

    def with_graph(self, name: str, *changes: tuple[str, str]) -> Pipeline:
        """Return the pipeline with another version of its graph: each change is a text and what replaces it."""
        text = self._text
        for old, new in changes:
            assert old in text, f"the graph has no {old!r}"
            text = text.replace(old, new)
        file = self._folder / f"{name}.yaml"
        file.write_text(text)
        return Pipeline(self.settings, file)

    def fix(self) -> None:
        """From now on the second node takes every document."""
        self.pipeline = self.with_graph("fixed", (FAILING, PASSING))

    def drain(self, *topics: str) -> None:
        for topic in topics:
            self._runs += 1
            self.pipeline.drain(topic, f"run-{self._runs}")

    def fail(self, *doc_ids: str) -> None:
        """Send documents as far as the second node."""
        self.pipeline.send(self.intake, doc_ids)
        self.drain(self.intake, self.second)

    def act(self, act: Act, action_id: str, *, topics: Iterable[str] = (), **options: Any) -> ActionReport:
        request = ActionRequest(act, f"{self.unique}-{action_id}", tuple(topics) or (self.dead,), **options)
        return run_action(request, self.settings, [self.pipeline.graph])

    def listed(
        self,
        selection: Selection | None = None,
        *,
        topic: str | None = None,
        states: Collection[State] = OPEN_STATES,
        limit: int | None = None,
    ) -> list[DeadLetter]:
        topics = [topic or self.dead]
        return list(list_dead_letters(self.settings, topics, selection or Selection(), states=states, limit=limit))

    def open_ids(self, selection: Selection | None = None) -> list[str]:
        """Return the documents of the open letters, sorted: the order of the ranges that failed is by chance."""
        return sorted(letter.doc_id for letter in self.listed(selection))

    def replayed(self) -> list[str]:
        """Return the documents of the records that replays sent to the second node, sorted, with repeats."""
        found = self.pipeline.read(self.second)
        return sorted(each.doc_id for each in found if header(each.record.headers, "pipestream.dead.replay"))
