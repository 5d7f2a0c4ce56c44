from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipestream.documents import fetch
from pipestream.documents.fetch import fetch_document, fetch_documents
from pipestream.documents.references import DocumentPlace, parse_place, place_of
from pipestream.documents.segments import build_segment, draw_segment_key, range_of, read_document, read_segment
from pipestream.errors import DocumentMissing, IdInvalid, RecordInvalid, SegmentDamaged
from pipestream.objects.store import ObjectStore, open_store
from pipestream.settings import Settings
from pipestream.wire import DocumentReference, PipeDoc, PipeStream

KEY = "segments/acme/parse/2026111723/2b0f6e5c-6f7a-4f0e-9a57-6f2c1d6a0c11"
DOCUMENTS = [PipeDoc(doc_id=f"doc-{number}").SerializeToString() for number in range(5)]


def places(segment, documents=DOCUMENTS, key=KEY):
    return [DocumentPlace(key, offset, len(data)) for offset, data in zip(segment.offsets, documents, strict=True)]


@pytest.fixture
def store(tmp_path):
    with open_store(f"file://{tmp_path / 'objects'}", Settings()) as opened:
        yield opened


@pytest.fixture
def stored(store):
    segment = build_segment(DOCUMENTS)
    store.put(KEY, segment.data)
    return places(segment)


def test_the_documents_of_a_segment_are_read_back():
    segment = build_segment(DOCUMENTS)

    assert [segment.data[at : at + len(data)] for at, data in zip(segment.offsets, DOCUMENTS, strict=True)] == DOCUMENTS
    assert list(read_segment(KEY, segment.data)) == DOCUMENTS


def test_a_segment_does_not_parse_as_a_document():
    with pytest.raises(Exception, match="Error parsing message"):
        PipeDoc.FromString(build_segment(DOCUMENTS).data)


def test_no_two_segments_have_the_same_name():
    now = datetime(2026, 11, 17, 23, 5, tzinfo=UTC)

    names = {draw_segment_key("acme", "parse", now) for _ in range(100)}

    assert len(names) == 100
    assert all(name.startswith("segments/acme/parse/2026111723/") for name in names)


def test_an_empty_document_has_a_place_too():
    segment = build_segment([b"", b"x"])
    first, second = places(segment, [b"", b"x"])

    assert read_document(first, memoryview(segment.data), 0) == b""
    assert read_document(second, memoryview(segment.data), 0) == b"x"


@pytest.mark.parametrize("shift", [-9, -8, -1, 1, 5])
def test_a_wrong_offset_is_an_error_and_not_another_document(stored, store, shift):
    wrong = DocumentPlace(KEY, stored[2].offset + shift, stored[2].length)

    with pytest.raises(SegmentDamaged, match="no whole document at segments/"):
        fetch_document(store, wrong)


@pytest.mark.parametrize("offset", [10_000, 10**15])
def test_a_place_behind_the_end_of_a_segment_is_an_error(stored, store, offset):
    with pytest.raises(SegmentDamaged, match="ends before the document"):
        fetch_document(store, DocumentPlace(KEY, offset, 7))


def test_a_wrong_length_is_an_error(stored, store):
    with pytest.raises(SegmentDamaged, match="as the length there"):
        fetch_document(store, DocumentPlace(KEY, stored[0].offset, stored[0].length - 1))


def test_damaged_bytes_are_an_error_of_that_document_alone(stored, store):
    data = bytearray(store.get(KEY))
    data[stored[1].offset] ^= 1
    store.put(KEY, bytes(data))

    found = fetch_documents(store, stored)

    assert isinstance(found[1], SegmentDamaged)
    assert "checksum" in str(found[1])
    assert [found[0], *found[2:]] == [DOCUMENTS[0], *DOCUMENTS[2:]]


@pytest.mark.parametrize("data", [b"", b"x", b"\0" + b"1234", build_segment(DOCUMENTS).data[:-1]])
def test_what_is_not_a_whole_segment_cannot_be_read_as_one(data):
    with pytest.raises(SegmentDamaged):
        list(read_segment(KEY, data))


class CountingStore(ObjectStore):
    """Counts the requests that are made to a store."""

    def __init__(self, store):
        self.inner, self.reads, self.largest_bytes = store, [], 0

    def get_many(self, keys, *limits):
        self.reads += keys
        return self.inner.get_many(keys, *limits)

    def get_ranges(self, wanted):
        self.reads += wanted
        self.largest_bytes = max(self.largest_bytes, sum(each.size_bytes for each in wanted))
        return self.inner.get_ranges(wanted)


def test_many_documents_of_a_segment_are_one_request(stored, store):
    counting = CountingStore(store)

    assert fetch_documents(counting, stored[::-1]) == DOCUMENTS[::-1]
    assert len(counting.reads) == 1
    assert counting.reads[0].start == range_of(stored[0]).start


def test_scattered_documents_are_read_without_all_the_bytes_between_them_in_memory(store, monkeypatch):
    monkeypatch.setattr(fetch, "_TOGETHER_BYTES", 250_000)
    documents = [PipeDoc(doc_id="x" * 1_000 + str(number)).SerializeToString() for number in range(100)]
    keys = [f"{KEY}{number}" for number in range(5)]
    for key in keys:
        store.put(key, build_segment(documents).data)
    own = places(build_segment(documents), documents)
    wanted = [DocumentPlace(key, own[index].offset, own[index].length) for index in (70, 0, 99) for key in keys]
    counting = CountingStore(store)

    assert fetch_documents(counting, wanted) == [documents[index] for index in (70, 0, 99) for _ in keys]
    assert len(counting.reads) == len(keys)
    assert 100_000 < counting.largest_bytes <= 250_000


def test_documents_in_segments_and_objects_of_their_own_are_fetched_in_their_order(stored, store):
    store.put("streams/acme/s/n.pb", b"own")
    missing = DocumentPlace("segments/acme/parse/2026111723/none", 9, 3)

    found = fetch_documents(store, [stored[3], DocumentPlace("streams/acme/s/n.pb"), missing, stored[0]])

    assert [found[0], found[1], found[3]] == [DOCUMENTS[3], b"own", DOCUMENTS[0]]
    assert isinstance(found[2], DocumentMissing)


@pytest.mark.parametrize(("most_bytes", "count"), [(1, 1), (len(DOCUMENTS[0]) + 1, 2), (10_000, 5), (None, 5)])
def test_fetching_stops_when_it_has_enough(stored, store, most_bytes, count):
    assert fetch_documents(store, stored, most_bytes) == DOCUMENTS[:count]


def test_objects_behind_the_place_where_it_has_enough_are_not_fetched(stored, store, monkeypatch):
    own = [DocumentPlace(f"streams/acme/s{number}/n.pb") for number in range(1_000)]
    store.put_many([(place.key, b"o") for place in own])
    mixed = [place for index, each in enumerate(own) for place in (stored[index % len(stored)], each)]
    fetched, get = [], store.get
    monkeypatch.setattr(store, "get", lambda key: fetched.append(key) or get(key))

    found, rest = [], mixed
    while rest:
        found.append(fetch_documents(store, rest, 10 * len(DOCUMENTS[0])))
        rest = rest[len(found[-1]) :]

    assert [each for part in found for each in part] == [
        data for index in range(len(own)) for data in (DOCUMENTS[index % len(stored)], b"o")
    ]
    # A thread may have begun one more when it became enough.
    assert len(fetched) <= len(own) + 16 * len(found)
    assert len(found) > 50


def test_objects_of_their_own_count_as_well_when_it_has_enough(stored, store):
    store.put("streams/acme/s/n.pb", b"own" * 100)
    own = DocumentPlace("streams/acme/s/n.pb")

    assert fetch_documents(store, [stored[0], own, stored[1]], 200) == [DOCUMENTS[0], b"own" * 100]


def refer(**reference):
    return PipeStream(document_ref=DocumentReference(doc_id="d", account_id="acme", **reference))


def test_a_reference_into_a_segment_names_its_place():
    place = place_of(refer(object_key=KEY, object_offset=9, object_length=0))

    assert place == DocumentPlace(KEY, 9, 0)
    assert place.is_in_segment


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"object_key": KEY}, "is not the place of a document"),
        ({"object_key": KEY, "object_offset": 8, "object_length": 4}, "is not the place of a document"),
        ({"object_key": KEY, "object_offset": 9, "object_length": -4}, "is not the place of a document"),
        ({"object_key": "streams/acme/s/n.pb", "object_offset": 9}, "is not a segment"),
        ({"object_key": KEY.replace("acme", "other"), "object_offset": 9}, "is not below"),
    ],
)
def test_a_reference_that_is_not_a_place_in_a_segment_is_an_invalid_record(reference, message):
    with pytest.raises(RecordInvalid, match=message):
        place_of(refer(**reference))


@pytest.mark.parametrize("place", [DocumentPlace(KEY, 12, 34), DocumentPlace("streams/acme/s/n.pb")])
def test_a_place_can_be_written_and_read_as_text(place):
    assert parse_place(str(place)) == place


@pytest.mark.parametrize("text", [f"{KEY}@3:4", "../x", f"{KEY}/..@12:4"])
def test_a_text_that_is_not_a_place_is_refused(text):
    with pytest.raises(IdInvalid):
        parse_place(text)
