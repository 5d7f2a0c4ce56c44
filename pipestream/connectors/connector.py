"""What a connector is: a way to find the documents of a datasource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pipestream.wire import PipeDoc


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something at the source that could not become a document, and why. It does not stop the others."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something at the source that was left out on purpose, and why. The report counts them by reason."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A point from which the next run can continue: what was yielded before it need not be looked at again.

    The state is remembered under the item's name, after the documents before it are recorded. JSON must hold it.
    """

    item: str
    state: Mapping[str, Any]


Found = PipeDoc | Unreadable | LeftOut | Seen


class Connector(Protocol):
    """Finds documents. Two runs over the same source find the same documents, ids and order."""

    def documents(self) -> Iterator[PipeDoc | Unreadable]:
        """Yield what is at the source, one by one.

        :raises SourceUnreadable: the source as a whole cannot be read.
        """


class Memory(Protocol):
    """What earlier runs of a connector have seen."""

    def recall(self, items: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return the remembered states of those items that have one.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """


class NoMemory:
    """The memory of a first run, and of one that takes everything again."""

    def recall(self, items: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:  # noqa: ARG002
        return {}


@runtime_checkable
class IncrementalConnector(Protocol):
    """Finds what is new since earlier runs.

    A document that is found again has the same id, so that one that was taken in before a crash is not repeated.
    """

    @property
    def scope(self) -> str:
        """What the memory belongs to: the kind and the options that decide what is found. Another scope starts over."""

    @property
    def max_documents(self) -> int:
        """After this many documents a run stops at the next ``Seen``; 0: never."""

    def changes(self, memory: Memory) -> Iterator[Found]:
        """Yield what is new, and what was left out, one by one; each ``Seen`` after what it covers.

        :raises SourceUnreadable: the source as a whole cannot be read.
        :raises TransientError: it did not answer; the next run continues.
        """
