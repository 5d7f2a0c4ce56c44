"""Delete documents by their ids: the row in the catalogue first, then the objects.

In this order, because a row without its object could still be published, while an object without its row is found again
by its key. So a command that was killed halfway is simply repeated, and one that finds nothing is done.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.documents.catalogue import Catalogue
from pipestream.errors import RequestInvalid
from pipestream.ids import check_graph_id, check_key_part
from pipestream.kafka.broker import Broker
from pipestream.objects.store import ObjectStore, open_store
from pipestream.retention.blob_use import read_documents
from pipestream.retention.policies import BLOBS, OUTPUTS, SEGMENTS, UPLOADS, read_histories
from pipestream.retention.references import References, find_referring_topics, scan_references

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """What there is of a document."""

    doc_id: str
    is_catalogued: bool
    uploads: tuple[str, ...]
    """The keys of its versions."""
    outputs: tuple[str, ...]
    """The keys of what nodes stored of it, if they were looked for."""
    referenced: tuple[str, ...]
    """Those keys that records in Kafka still refer to: they wait, are dead letters, or a backfill could read them.
    A reference in the outbox is such a record, too."""
    blobs: tuple[str, ...] = ()
    """The keys of its blobs that are objects of their own."""
    in_segments: tuple[str, ...] = ()
    """The keys of segments with outputs of it, if they were looked for. They hold other documents too, so they are not
    deleted here, but when they expire."""

    @property
    def keys(self) -> tuple[str, ...]:
        return self.uploads + self.outputs + self.blobs

    @property
    def is_there(self) -> bool:
        return self.is_catalogued or bool(self.keys or self.in_segments)


def find_documents(
    settings: Settings, datasource_id: str, doc_ids: Sequence[str], *, with_outputs: bool = False
) -> list[FoundDocument]:
    """Return what there is of some documents of a datasource. Changes nothing.

    :param with_outputs: look for what nodes stored of them as well, which reads every stored output of the account.
    :raises SegmentDamaged: a segment of the account cannot be read.
    :raises RequestInvalid: no graph that was applied has the datasource.
    :raises IdInvalid: an id cannot be a document's.
    """
    histories = read_histories(settings)
    account_id = _account_of(histories, check_graph_id(datasource_id, "datasource id"))
    wanted = [check_key_part(doc_id, "document id") for doc_id in dict.fromkeys(doc_ids)]
    with open_store(settings.store_uri, settings) as store, closing(Catalogue(settings)) as catalogue:
        references = scan_references(settings, find_referring_topics(histories, Broker(settings), store, settings))
        outputs = _find_outputs(store, account_id, datasource_id, set(wanted)) if with_outputs else {}
        return [
            _found(store, catalogue, references, (account_id, datasource_id, doc_id), tuple(outputs.get(doc_id, ())))
            for doc_id in wanted
        ]


def delete_documents(
    settings: Settings, datasource_id: str, found: Sequence[FoundDocument], *, even_if_referenced: bool = False
) -> None:
    """Delete documents that were found. What is in segments stays until they expire.

    :param even_if_referenced: also where records refer to them. Each such record becomes a dead letter when it is read.
    :raises RequestInvalid: records refer to a document; nothing was deleted.
    """
    kept = [document.doc_id for document in found if document.referenced]
    if kept and not even_if_referenced:
        raise RequestInvalid(
            f"records in Kafka still refer to {', '.join(kept)}, so nothing was deleted; wait until Kafka has deleted "
            f"them, or delete the documents all the same with --even-if-referenced"
        )
    account_id = _account_of(read_histories(settings), datasource_id)
    with open_store(settings.store_uri, settings) as store, closing(Catalogue(settings)) as catalogue:
        for document in found:
            catalogue.remove(account_id, datasource_id, document.doc_id)
            store.delete_many(document.keys)


def _found(
    store: ObjectStore,
    catalogue: Catalogue,
    references: References,
    place: tuple[str, str, str],
    outputs: tuple[str, ...],
) -> FoundDocument:
    uploads = tuple(sorted(store.list("/".join((UPLOADS, *place)))))
    blobs = tuple(sorted(store.list("/".join((BLOBS, *place)))))
    waiting = catalogue.waiting(place[1], uploads)
    in_segments = tuple(key for key in outputs if key.startswith(f"{SEGMENTS}/"))
    outputs = tuple(key for key in outputs if key not in in_segments)
    referenced = tuple(key for key in uploads + outputs if key in references or key in waiting)
    is_catalogued = catalogue.find(*place) is not None
    return FoundDocument(place[2], is_catalogued, uploads, outputs, referenced, blobs, in_segments)


def _find_outputs(
    store: ObjectStore, account_id: str, datasource_id: str, wanted: Collection[str]
) -> dict[str, list[str]]:
    """Return the keys of what nodes stored of some documents; only the documents themselves say whose they are."""
    found: dict[str, list[str]] = {}
    for root in (OUTPUTS, SEGMENTS):
        for key, document in read_documents(store, f"{root}/{account_id}"):
            if document.doc_id in wanted and document.ownership.datasource_id in ("", datasource_id):
                found.setdefault(document.doc_id, []).append(key)
    return {doc_id: list(dict.fromkeys(keys)) for doc_id, keys in found.items()}


def _account_of(histories: Sequence[Sequence[Graph]], datasource_id: str) -> str:
    """Return whose datasource it is, by the newest version of a graph that has it."""
    for versions in histories:
        for graph in versions:
            if source := graph.datasource_by_id.get(datasource_id):
                return source.account_id
    raise RequestInvalid(f"no graph that was applied has a datasource {datasource_id}; apply it, or correct the id")
