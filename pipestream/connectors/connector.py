"""What a connector is: a way to find the documents of a datasource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.wire import PipeDoc


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something at the source that could not become a document, and why. It does not stop the others."""

    source: str
    reason: str


class Connector(Protocol):
    """Finds documents. Two runs over the same source find the same documents, ids and order."""

    def documents(self) -> Iterator[PipeDoc | Unreadable]:
        """Yield what is at the source, one by one.

        :raises SourceUnreadable: the source as a whole cannot be read.
        """
