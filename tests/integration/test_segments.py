"""Documents in segments on real servers: drained, read one by one, deleted by id, and expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.documents.references import place_of
from pipestream.kafka.broker import Broker
from pipestream.kafka.partitions import partition_of
from pipestream.retention.expire import expire_documents
from pipestream.views.documents import letter_document, read_stored
from pipestream_testing.retention import delete_before

pytestmark = pytest.mark.stack

GRACE = timedelta(hours=1)
NAMES = [f"doc-{number}" for number in range(20)]


@pytest.fixture
def graph_text(graph_text):
    """The small graph, with segments between its nodes that expire at once."""
    return graph_text.replace(
        "  - id: first\n", "  - id: first\n    storage: segments\n    keep_documents_hours: 0.0001\n"
    )


@pytest.fixture
def letters(letters_of_own_topics):
    return letters_of_own_topics


def test_documents_pass_in_segments_and_each_can_be_read_alone(letters, settings, store, unique):
    letters.pipeline.send(letters.intake, [*NAMES, "bad"])
    letters.drain(letters.intake)

    waiting = letters.pipeline.read(letters.second)
    (segment,) = store.list("segments")
    assert {place_of(each.stream).key for each in waiting} == {segment}
    assert [each.record.partition for each in waiting] == [partition_of(each.record.key, 2) for each in waiting]
    for each in waiting:
        place = str(place_of(each.stream))
        assert read_stored(settings, place, each.doc_id, {"acme"}).doc_id == each.doc_id

    letters.drain(letters.second)
    assert set(letters.pipeline.doc_ids(letters.happy_end)) == set(NAMES)
    (letter,) = letters.listed()
    store.delete(segment)
    shown, why = letter_document(letter, settings, {"acme"})
    assert (shown.document["doc_id"], why) == ("bad", "")
    assert shown.key.startswith("streams/")


def test_a_segment_goes_as_a_whole_when_no_record_refers_to_it(letters, settings, store, run, unique):
    letters.pipeline.send(letters.intake, NAMES)
    letters.drain(letters.intake)
    soon = datetime.now(UTC) + timedelta(minutes=5)
    command = ["documents", "delete", "--datasource", unique, "--outputs", "--yes", "doc-3"]

    told = run(*command)
    assert told.code == 0
    assert "1 segments hold outputs" in told.out
    assert len(list(store.list("segments"))) == 1

    def expire_now(at):
        expire_documents(settings, at, grace=GRACE)
        return expire_documents(settings, at + GRACE + timedelta(minutes=1), grace=GRACE).deleted

    assert expire_now(soon) == 0, "records wait for its documents"
    broker = Broker(settings)
    for partition, end in broker.written_ends(letters.second, broker.identify(letters.second).partitions).items():
        delete_before(settings, letters.second, partition, end)
    assert expire_now(soon + 3 * GRACE) == 1
    assert list(store.list("segments")) == []
