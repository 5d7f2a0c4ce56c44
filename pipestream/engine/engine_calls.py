"""What all calls of another engine have in common: a large document is sent by reference, and an engine that is not
ready is waited for.

An engine may answer and still not be able to take any stream of a node: it has not read the graph yet, the datasource
is paused there, a module is not installed there. No document is to blame for that, so none fails because of it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipestream.documents.references import content_key, stream_key, variant_key
from pipestream.errors import ModuleDown, ModuleFailed, TimeBudgetSpent
from pipestream.objects.store import open_store
from pipestream.wire import DocumentReference, PipeStream

if TYPE_CHECKING:
    from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import ProcessNodeResponse
    from pipestream.settings import Settings

# What a request has besides its stream, with room to spare.
_MESSAGE_MARGIN = 1_024
_PAUSE_S = 0.1
_PAUSE_MAX_S = 2.0
# The code with which an engine's answer begins where its own state is the reason; see ``rpc/status.py``.
_NOT_READY = "INVALID_STATE"


class EngineNotReady(Exception):
    """A call came to nothing because of the engine and not because of the stream; the same call may succeed later."""


def call_when_ready(
    call: Callable[[float], None],
    engine: str,
    wait_s: float,
    timeout_s: float,
    deadline: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call an engine, again and again while it is not ready.

    :param call: makes one call, in the seconds that it is given; raises ``EngineNotReady`` while the engine is not.
    :param engine: its name in the error.
    :param timeout_s: how long each call may take.
    :param deadline: when nobody waits any more, by ``time.monotonic``; no call goes on after it.
    :raises ModuleDown: it was not ready for ``wait_s``.
    :raises TimeBudgetSpent: the deadline passed.
    """
    waited_until = time.monotonic() + wait_s
    pause_s = _PAUSE_S
    while True:
        left_s = _left_s(deadline)
        if left_s <= 0:
            raise TimeBudgetSpent(engine)
        try:
            return call(min(timeout_s, left_s))
        except EngineNotReady as error:
            if time.monotonic() + pause_s > waited_until:
                raise ModuleDown(engine, str(error), wait_s) from None
        sleep(max(0.0, min(pause_s * random.uniform(0.5, 1.0), _left_s(deadline))))  # noqa: S311 - not for secrets
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _left_s(deadline: float | None) -> float:
    return math.inf if deadline is None else deadline - time.monotonic()


def check_processed(answer: ProcessNodeResponse, engine: str) -> None:
    """Return if an engine has taken care of a stream.

    :raises EngineNotReady: it can process no stream at the node at the moment.
    :raises ModuleFailed: it refuses this stream.
    """
    if answer.success:
        return
    if answer.error_message.partition(":")[0] == _NOT_READY:
        raise EngineNotReady(answer.error_message)
    raise ModuleFailed(f"{engine}: {answer.error_message}", log_entries=list(answer.log_entries))


def sendable(stream: PipeStream, settings: Settings | None) -> PipeStream:
    """Return a stream as it is sent: a document too large for a message is stored, and a reference is sent.

    Its name tells its content, so that a repeated call, whose module may have answered otherwise, changes no object.

    :param settings: where it is stored, and what is too large; without them the stream is sent as it is.
    """
    if settings is None or stream.ByteSize() <= settings.grpc_max_message_bytes - _MESSAGE_MARGIN:
        return stream
    account_id = stream.metadata.account_id
    data = stream.document.SerializeToString(deterministic=True)
    key = stream_key(account_id, stream.stream_id, stream.current_node_id)
    key = content_key(variant_key(key, f"handover.{stream.hop_count}"), data)
    with open_store(settings.store_uri, settings) as store:
        store.put(key, data)
    reference = DocumentReference(doc_id=stream.document.doc_id, account_id=account_id, object_key=key)
    sent = PipeStream()
    sent.CopyFrom(stream)
    sent.document_ref.CopyFrom(reference)  # takes the document's place
    return sent
