"""Which topics have names of a graph's own choice, kept in the object store by the drains that may write to them.

Whoever deletes documents must read all topics that may refer to them. Those that follow the product's rule are known by
their names, and those that an applied graph names are known by its versions. A graph can be drained without having been
applied, so its drains record the names that it chooses.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pipestream.topic_names import TopicKind
from pipestream.topics.required import required_topics

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.objects.store import ObjectStore
    from pipestream.settings import Settings

ROOT = "retention/topics"

_PREFIXES = tuple(f"{kind.value}." for kind in TopicKind)


def is_named_by_rule(topic: str) -> bool:
    """Tell whether a topic is named as this product names its topics, whichever graph it is of."""
    return topic.startswith(_PREFIXES)


def record_named_topics(store: ObjectStore, graph: Graph, settings: Settings) -> None:
    """Record the topics that a graph names itself. Call it before anything is written to them.

    :raises StoreUnavailable: repeat it.
    """
    for spec in required_topics(graph, settings):
        if not is_named_by_rule(spec.name):
            store.put_new(_key(spec.name), spec.name.encode())


def read_named_topics(store: ObjectStore) -> set[str]:
    """Return the topics that drains have recorded.

    :raises StoreUnavailable: repeat it.
    """
    return {data.decode() for data in store.get_many(list(store.list(ROOT))) if isinstance(data, bytes)}


def _key(topic: str) -> str:
    # Not the name itself, which may be longer than a part of a key.
    return f"{ROOT}/{hashlib.sha256(topic.encode()).hexdigest()}"
