"""Refer to a document that the caller has stored before, instead of storing it again (``doc_stored_in_repo``)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipestream.documents.identity import prepare
from pipestream.documents.references import key_of, upload_key
from pipestream.errors import PipestreamError
from pipestream.retention.expire import SHORTEST_GRACE
from pipestream.times import utc_now
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.engine.carry import RecordResult
    from pipestream.engine_server.desk import Desk
    from pipestream.graph.model import Datasource

# What has expired may be deleted once nothing has referred to it for the grace period. An object that was written less
# than that ago is safe until this call's record is there. The rest of the time is for the call itself and for clocks.
_YOUNG = SHORTEST_GRACE / 2


async def refer_to_stored(results: Sequence[RecordResult], stream: PipeStream, source: Datasource, desk: Desk) -> None:
    """Where a document leaves as it came, let its record refer to the object that the caller has stored.

    The caller's word alone is not enough: a reference to an object that is not there loses the document. So the object
    is looked for, and where it is not there the document is stored as always. One that is older is written again: it
    may be about to be deleted as expired, and a deletion leaves out what was written since it was listed.
    """
    key = await asyncio.to_thread(_find_stored, stream, source, desk)
    if not key:
        return
    original = stream.document.SerializeToString(deterministic=True)
    for result in results:
        for index, output in enumerate(result.outputs):
            left = PipeStream.FromString(output.value or b"")
            if not left.HasField("document_ref") or left.metadata.HasField("stream_error"):
                continue
            own = key_of(left)
            if result.objects.get(own) == original:
                del result.objects[own]
                left.document_ref.object_key = key
                result.outputs[index] = output._replace(value=left.SerializeToString(deterministic=True))


def _find_stored(stream: PipeStream, source: Datasource, desk: Desk) -> str:
    """Return the key of the object that holds the document as it was uploaded; empty: there is none."""
    if not stream.HasField("document"):
        return ""
    try:
        prepared = prepare(stream.document, source)
        key = upload_key(source.account_id, source.datasource_id, prepared.doc_id, prepared.checksum)
    except PipestreamError:
        return ""
    if prepared.data != stream.document.SerializeToString(deterministic=True):
        return ""
    modified_at = desk.store.modified_at(key)
    if modified_at is None:
        return ""
    if utc_now() - modified_at > _YOUNG:
        desk.store.put(key, prepared.data)
    return key
