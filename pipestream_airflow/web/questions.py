"""Questions that several routes ask, and answers of which a part may be missing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from pipestream.dead_letters import DeadLetter
from pipestream.errors import PipestreamError
from pipestream.graph.model import Graph
from pipestream.views.documents import StoredDocument, letter_document, read_stored
from pipestream.views.standing import Standing
from pipestream.wire import PipeDoc
from pipestream_airflow.web.services import Services

SHARED_S = 1.0
"""How long everybody who looks gets the same numbers."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A part of an answer that is missing."""

    part: str
    """``kafka``, ``leases`` or ``ledger``."""
    reason: str


@dataclass(slots=True)
class Parts:
    """The answers of several servers; one that did not answer is absent."""

    answers: dict[str, Any] = field(default_factory=dict)
    unavailable: list[Unavailable] = field(default_factory=list)

    def get(self, name: str) -> Any:
        return self.answers.get(name)


async def ask_parts(**questions: tuple[str, Awaitable[Any]]) -> Parts:
    """Ask several servers side by side, each named with its part of the answer. None stops the others."""
    answers = await asyncio.gather(*(question for _, question in questions.values()), return_exceptions=True)
    parts = Parts()
    for (name, (part, _)), answer in zip(questions.items(), answers, strict=True):
        if isinstance(answer, PipestreamError):
            missing = Unavailable(part, str(answer))
            if missing not in parts.unavailable:
                parts.unavailable.append(missing)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            parts.answers[name] = answer
    return parts


async def find_standing(services: Services) -> Standing:
    """Return where the topics of all active graphs stand."""

    def look() -> Standing:
        return services.standing.find(each.built.graph for each in services.pipelines.active().values())

    return await services.kafka.ask("standing", look, keep_s=SHARED_S)


async def count_letters(services: Services) -> Counter[tuple[str, str]]:
    """Return how many dead letters wait, by graph and node."""

    def look() -> Counter[tuple[str, str]]:
        return services.letters.count(each.built.graph for each in services.pipelines.active().values())

    return await services.kafka.ask("letters", look, keep_s=SHARED_S)


async def find_stored(services: Services, graph: Graph, key: str, doc_id: str) -> PipeDoc:
    """Return a stored document of a graph's accounts.

    The accounts are a part of the question: a user of another pipeline who asks at the same time may not share the
    answer.
    """
    accounts = _accounts_of(graph)
    return await services.store.ask(
        ("stored", key, doc_id, accounts), lambda: read_stored(services.settings, key, doc_id, accounts)
    )


async def find_letter_document(
    services: Services, graph: Graph, letter: DeadLetter
) -> tuple[StoredDocument | None, str]:
    """Return the document of a dead letter, or why there is none to show. The accounts are as for ``find_stored``."""
    accounts = _accounts_of(graph)
    return await services.store.ask(
        ("letter's document", letter.letter_id, accounts), lambda: letter_document(letter, services.settings, accounts)
    )


def _accounts_of(graph: Graph) -> frozenset[str]:
    return frozenset(source.account_id for source in graph.datasources)
