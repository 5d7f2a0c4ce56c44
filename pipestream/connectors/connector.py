"""What a connector is: a way to find the documents of a datasource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.wire import PipeDoc


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something at the source that could not become a document, and why; the others are not held up by it."""

    source: str
    reason: str


class Connector(Protocol):
    """Finds documents. Twice over the same source it finds the same ones, with the same ids, in the same order."""

    def documents(self) -> Iterator[PipeDoc | Unreadable]:
        """Yield what is at the source, one by one.

        :raises SourceUnreadable: the source as a whole cannot be read.
        """
