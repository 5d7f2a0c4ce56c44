"""Store what results refer to, before their records are sent. Drains and the engine do it in the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pipestream.documents.references import is_derived
from pipestream.engine.carry import RecordResult
from pipestream.objects.store import ObjectStore

log = logging.getLogger(__name__)


def store_results(
    results: Sequence[RecordResult],
    segments: Sequence[tuple[str, bytes]],
    store: ObjectStore,
    patiently: Callable[[Callable[[], Any]], Any] = lambda work: work(),
) -> None:
    """Store the objects of results, and the segments that hold the rest of their documents.

    What is stored is never changed. A name that is derived from the input may hold the bytes of another try: of one
    that died, of one that has overtaken this one and committed, of a repeated call. Then the bytes of this try get a
    name of their own. What no committed record refers to is found by the next try, or by nobody.

    :param patiently: repeats a request while the store does not answer.
    """
    objects = [item for result in results for item in result.objects.items()]
    derived = [item for item in objects if is_derived(item[0])]
    patiently(partial(store.put_many, [*segments, *(item for item in objects if not is_derived(item[0]))]))
    taken = set(patiently(partial(store.put_once, derived)))
    if not taken:
        return
    log.info("the bytes of another try have the names of %d objects: %s, …", len(taken), min(taken))
    moved = [item for result in results for item in result.move_objects(taken).items()]
    patiently(partial(store.put_many, moved))
