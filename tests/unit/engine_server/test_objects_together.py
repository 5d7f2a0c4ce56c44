"""Objects of calls that wait at the same time are stored together, in segments where their node says so."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream.documents.fetch import fetch_document
from pipestream.documents.references import place_of, stream_key
from pipestream.drain.packing import Packer
from pipestream.engine.carry import RecordResult
from pipestream.engine_server.objects import ObjectPutter
from pipestream.graph.load import check_graph_text
from pipestream.kafka.records import InputRecord, OutputRecord
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import DocumentReference, PipeStream

GRAPH = b"""
graph: packed
cluster: packed
datasources:
  - {id: packed, account: acme, entry: start}
nodes:
  - {id: start, type: connector, storage: segments}
  - {id: next, type: connector}
edges:
  - {from: start, to: next}
"""


@pytest.fixture
def settings():
    return Settings()


@pytest.fixture
def store(tmp_path, settings):
    with open_store(f"file://{tmp_path}", settings) as opened:
        yield opened


@pytest.fixture
def packer(settings):
    return Packer(check_graph_text(GRAPH, "packed.yaml").require(), settings)


def result_of(name, text=""):
    """Return the result of a call whose document may go into a segment."""
    key = stream_key("acme", name, "start")
    stream = PipeStream(stream_id=name)
    stream.document_ref.CopyFrom(DocumentReference(doc_id=name, account_id="acme", source_node_id="start"))
    result = RecordResult(InputRecord("intake.packed", -1, -1, 0, None, None))
    result.outputs.append(OutputRecord("pipestream.packed.next", name.encode(), stream.SerializeToString()))
    result.objects[key] = (text or f"document {name}").encode()
    result.document_keys[0] = result.for_segments[0] = key
    return result


class HeldBack:
    """A store whose first two puts wait, so that the calls that come meanwhile are put together."""

    def __init__(self, store):
        self._store = store
        self._left = 2
        self.go = threading.Event()

    def put_many(self, items):
        self._left -= 1
        if self._left >= 0:
            self.go.wait(30)
        self._store.put_many(items)

    def put_once(self, items):
        return self._store.put_once(items)


async def put_all(store, packer, results):
    held = HeldBack(store)
    with ThreadPoolExecutor(4) as threads:
        putter = ObjectPutter(held, threads)
        putting = [asyncio.create_task(putter.put_results([(packer, each)])) for each in results]
        await asyncio.sleep(0)
        held.go.set()
        await asyncio.gather(*putting)


def test_documents_of_calls_that_wait_together_go_into_one_segment(store, packer):
    results = [result_of(f"stream-{number}") for number in range(12)]
    asyncio.run(put_all(store, packer, results))
    places = [place_of(PipeStream.FromString(each.outputs[0].value)) for each in results]
    # The first two are put alone, and a document alone has an object of its own.
    assert [place.is_in_segment for place in places] == [False] * 2 + [True] * 10
    assert len({place.key for place in places[2:]}) == 1
    assert [fetch_document(store, place) for place in places] == [
        f"document stream-{number}".encode() for number in range(12)
    ]


def test_a_result_that_is_put_again_keeps_its_place_in_the_segment(store, packer):
    """The other results of a call whose output Kafka refused are put a second time."""
    results = [result_of(f"stream-{number}") for number in range(12)]
    asyncio.run(put_all(store, packer, results))
    outputs = [each.outputs[0] for each in results]
    asyncio.run(put_all(store, packer, results))
    assert [each.outputs[0] for each in results] == outputs
    assert len(list(store.list("segments"))) == 1


@pytest.mark.parametrize("are_together", [False, True], ids=["one after the other", "at once"])
def test_a_repeated_call_never_changes_the_document_that_the_first_one_has_stored(store, packer, are_together):
    """Both are at work until one is accepted, and a module may answer them in different ways."""
    calls = [result_of("stream", text=text) for text in ("first", "second")]
    for some in [calls] if are_together else [[call] for call in calls]:
        asyncio.run(put_all(store, packer, some))

    places = [place_of(PipeStream.FromString(each.outputs[0].value)) for each in calls]
    assert [fetch_document(store, place) for place in places] == [b"first", b"second"]
