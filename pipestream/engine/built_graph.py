"""A graph with its message and its hash, built once per process whichever way it arrives.

A run has a graph; its tasks get the graph's message, in this process or in a worker's. Large graphs take tens of
milliseconds to build and to hash, so whoever has built one leaves it here for the others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from pipestream.graph.model import Graph
from pipestream.graph.proto import from_kept, to_binary

# A process works on few graphs; a handful covers them and the versions that they had a moment ago.
_MOST_KEPT = 8


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """One version of a graph. Two are the same if their hashes are."""

    digest: str
    graph: Graph = field(compare=False, repr=False)
    content: bytes = field(compare=False, repr=False)
    """The graph's message."""


_kept: OrderedDict[bytes, BuiltGraph] = OrderedDict()
_lock = threading.Lock()


def built(graph: Graph) -> BuiltGraph:
    """Return a graph with its message and its hash."""
    return _keep(to_binary(graph), lambda _: graph)


def restore(content: bytes) -> BuiltGraph:
    """Return the graph of a message that ``built`` made, which was checked before.

    :raises GraphInvalid: the bytes are not such a message.
    """
    return _keep(content, lambda kept: from_kept(kept, source="the graph of a task"))


def _keep(content: bytes, build: Callable[[bytes], Graph]) -> BuiltGraph:
    with _lock:
        found = _kept.get(content)
        if found is None:
            found = _kept[content] = BuiltGraph(sha256(content).hexdigest(), build(content), content)
            if len(_kept) > _MOST_KEPT:
                _kept.popitem(last=False)
        else:
            _kept.move_to_end(content)
        return found
