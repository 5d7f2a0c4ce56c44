"""What identifies the content of a graph."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pipestream.graph.proto import to_binary

if TYPE_CHECKING:
    from pipestream.graph.model import Graph


def graph_hash(graph: Graph) -> str:
    """Return the SHA-256 of a graph's message in hex: the same for the same graph, whatever file it came from."""
    return hashlib.sha256(to_binary(graph)).hexdigest()
