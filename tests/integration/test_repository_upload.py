from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from pipestream import faults
from pipestream.documents import repository as repository_module
from pipestream.documents.catalogue import Catalogue
from pipestream.documents.identity import prepare
from pipestream.documents.outbox import Outbox
from pipestream.documents.references import DocumentPlace, key_of
from pipestream.documents.relay import Relay
from pipestream.documents.repository import Repository
from pipestream.documents.tables import Tables
from pipestream.documents.uploads import Uploads
from pipestream.errors import BrokerUnavailable, IdInvalid, Overtaken, StoreRefused, TopicMissing, TransientError
from pipestream.graph.model import Connector, Datasource
from pipestream.objects.store import open_store
from pipestream.repository_server.desk import Desk
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing import fault_actions
from pipestream_testing.pipeline import read_topic
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack


@pytest.fixture
def datasource(settings, unique):
    TopicAdmin(settings).create([TopicSpec(f"intake.{unique}", 2, None, Purpose.INTAKE)])
    return Datasource(unique, "acme", "triage", connector=Connector("folder", {"path": "x"}))


@pytest.fixture
def repository(settings):
    with Repository(settings) as opened:
        yield opened


@pytest.fixture
def uploads(settings):
    """Takes documents in and publishes nothing."""
    tables = Tables(settings)
    opened = Uploads(settings, tables)
    yield opened
    opened.close()
    tables.close()


def records(settings, datasource):
    """Return all records of the intake topic, by partition and offset."""
    return [each.record for each in read_topic(settings, f"intake.{datasource.datasource_id}")]


def document(doc_id: str = "doc-1", title: str = "One") -> PipeDoc:
    made = PipeDoc(doc_id=doc_id)
    made.search_metadata.title = title
    made.search_metadata.mime_type = "text/plain"
    return made


def test_an_upload_is_stored_catalogued_and_published(settings, repository, datasource):
    upload = repository.upload(document(), datasource)

    (record,) = records(settings, datasource)
    stream = PipeStream.FromString(record.value)
    with open_store(settings.store_uri, settings) as store:
        stored = PipeDoc.FromString(store.get(key_of(stream)))
    with Catalogue(settings) as catalogue:
        row = catalogue.find("acme", datasource.datasource_id, "doc-1")

    assert (upload.outcome, upload.published, upload.topic) == ("new", True, record.topic)
    assert key_of(stream) == upload.object_key == row.object_key
    assert stored.search_metadata.title == "One"
    assert (stored.ownership.account_id, stored.ownership.datasource_id) == ("acme", datasource.datasource_id)
    assert (row.checksum, row.size_bytes, row.title, row.version) == (
        upload.checksum,
        upload.size_bytes,
        "One",
        1,
    )
    assert row.published_at is not None


def test_the_record_says_what_the_drain_needs(settings, repository, datasource):
    repository.upload(document(), datasource)

    (record,) = records(settings, datasource)
    stream = PipeStream.FromString(record.value)

    assert record.key == b"doc-1"
    assert dict(record.headers) == {
        "pipestream-doc-id": b"doc-1",
        "content-type": b"application/x-protobuf; messageType=ai.pipestream.data.v1.PipeStream",
    }
    assert stream.stream_id == ""
    assert not stream.HasField("document")
    assert stream.metadata.datasource_id == datasource.datasource_id
    assert (stream.metadata.account_id, stream.metadata.entry_node_id) == ("acme", "triage")
    assert stream.metadata.source_id == "folder"
    assert stream.metadata.created_at.seconds > 0


def test_the_same_document_again_is_unchanged_and_not_published_again(settings, repository, datasource):
    repository.upload(document(), datasource)
    again = repository.upload(document(), datasource)

    assert (again.outcome, again.published) == ("unchanged", False)
    assert len(records(settings, datasource)) == 1


def test_force_publishes_an_unchanged_document_again(settings, repository, datasource):
    repository.upload(document(), datasource)
    again = repository.upload(document(), datasource, force=True)

    assert (again.outcome, again.published) == ("unchanged", True)
    assert len(records(settings, datasource)) == 2


def test_a_changed_document_never_overwrites_what_a_stream_in_flight_refers_to(settings, repository, datasource):
    first = repository.upload(document(title="One"), datasource)
    second = repository.upload(document(title="Two"), datasource)

    with open_store(settings.store_uri, settings) as store:
        titles = [PipeDoc.FromString(store.get(upload.object_key)).search_metadata.title for upload in (first, second)]

    assert (second.outcome, second.published) == ("changed", True)
    assert titles == ["One", "Two"]


def test_many_documents_are_taken_in_batches_and_answered_in_order(settings, repository, datasource, monkeypatch):
    monkeypatch.setattr(repository_module, "_BATCH_DOCUMENTS", 7)
    ids = [f"doc-{number:02}" for number in range(30)]

    uploads = list(repository.upload_many((document(doc_id) for doc_id in ids), datasource))

    assert [upload.doc_id for upload in uploads] == ids
    assert {upload.outcome for upload in uploads} == {"new"}
    assert sorted(record.key.decode() for record in records(settings, datasource)) == ids


def test_a_document_twice_in_one_upload_keeps_its_order_and_the_last_wins(settings, repository, datasource):
    uploads = list(
        repository.upload_many([document(title="One"), document("other"), document(title="Two")], datasource)
    )

    with Catalogue(settings) as catalogue:
        row = catalogue.find("acme", datasource.datasource_id, "doc-1")
    assert [upload.outcome for upload in uploads] == ["new", "new", "changed"]
    assert (row.title, row.version) == ("Two", 2)


def test_batches_are_recorded_while_another_process_keeps_the_relay_waiting(
    settings, repository, datasource, monkeypatch
):
    monkeypatch.setattr(repository_module, "_BATCH_DOCUMENTS", 1)
    ids = [f"doc-{number}" for number in range(8)]
    tables = Tables(settings)

    def recorded() -> list[str]:
        with Catalogue(settings) as catalogue:
            return [row.doc_id for row in catalogue.list("acme", datasource.datasource_id)]

    with closing(tables), ThreadPoolExecutor(1) as pool:
        with Outbox(tables).lock(datasource.datasource_id) as is_ours:
            assert is_ours
            uploads = pool.submit(list, repository.upload_many(map(document, ids), datasource))
            wait_until(lambda: recorded() == ids, "not all are recorded")
            assert records(settings, datasource) == []
        assert [upload.doc_id for upload in uploads.result()] == ids

    assert sorted(record.key.decode() for record in records(settings, datasource)) == ids


def test_no_more_is_read_than_is_stored_soon(repository, datasource, monkeypatch):
    monkeypatch.setattr(repository_module, "_BATCH_DOCUMENTS", 1)
    may_store, read = threading.Event(), []
    put = repository._uploads.put
    monkeypatch.setattr(repository._uploads, "put", lambda *arguments: may_store.wait(60) and put(*arguments))

    def source() -> Iterator[PipeDoc]:
        for number in range(20):
            read.append(number)
            yield document(f"doc-{number:02}")

    with ThreadPoolExecutor(1) as pool:
        uploads = pool.submit(list, repository.upload_many(source(), datasource))
        wait_until(lambda: len(read) == repository_module._BATCHES_IN_MEMORY + 1)
        assert not uploads.done()
        may_store.set()

        assert len(uploads.result()) == len(read) == 20


@pytest.fixture
def fail_at(monkeypatch):
    """Let this process fail at a named point, once."""

    def fail_at(point):
        monkeypatch.setattr(fault_actions, "_reached", Counter())
        monkeypatch.setenv(faults.VARIABLE, f"{point}=fail")

    return fail_at


@pytest.mark.parametrize("point", [faults.UPLOAD_STORED, faults.UPLOAD_RECORDED, faults.OUTBOX_CLAIMED])
def test_batches_before_one_that_failed_are_uploaded_and_those_behind_it_are_not_recorded(
    settings, repository, datasource, monkeypatch, point
):
    monkeypatch.setattr(repository_module, "_BATCH_DOCUMENTS", 1)
    monkeypatch.setattr(fault_actions, "_reached", Counter())
    monkeypatch.setenv(faults.VARIABLE, f"{point}=fail@2")
    # More than one transaction publishes, so that there is a second one to fail.
    ids = [f"doc-{number:02}" for number in range(3 * repository_module._BATCHES_UNDER_WAY)]
    uploads = repository.upload_many((document(doc_id) for doc_id in ids), datasource)

    assert next(uploads).doc_id == "doc-00"
    with pytest.raises(TransientError):
        list(uploads)
    with Catalogue(settings) as catalogue:
        recorded = [row.doc_id for row in catalogue.list("acme", datasource.datasource_id)]
    assert recorded == ids[: len(recorded)]
    assert recorded == ids[:1] or point != faults.UPLOAD_STORED
    monkeypatch.delenv(faults.VARIABLE)
    list(repository.upload_many((document(doc_id) for doc_id in ids), datasource))

    assert sorted(record.key.decode() for record in records(settings, datasource)) == ids


def test_what_was_recorded_but_not_published_is_published_by_publish_pending(settings, repository, datasource, fail_at):
    fail_at(faults.OUTBOX_CLAIMED)
    with pytest.raises(TransientError):
        list(repository.upload_many([document("a"), document("b")], datasource))
    assert records(settings, datasource) == []

    assert repository.publish_pending(datasource) == 2
    assert repository.publish_pending(datasource) == 0
    assert sorted(record.key for record in records(settings, datasource)) == [b"a", b"b"]


def test_what_was_recorded_but_not_published_is_published_by_the_next_upload(settings, repository, datasource, fail_at):
    fail_at(faults.OUTBOX_CLAIMED)
    with pytest.raises(TransientError):
        repository.upload(document(), datasource)

    again = repository.upload(document(), datasource)

    assert (again.outcome, again.published) == ("unchanged", True)
    assert len(records(settings, datasource)) == 1


@pytest.mark.parametrize("point", [faults.CHUNK_PRODUCED, faults.OUTBOX_PUBLISHED])
def test_references_are_published_once_whether_the_relay_failed_before_or_after_kafkas_commit(
    settings, repository, datasource, fail_at, point
):
    fail_at(point)
    with pytest.raises(TransientError):
        list(repository.upload_many([document("a"), document("b")], datasource))

    list(repository.upload_many([document("a"), document("b")], datasource))

    assert sorted(record.key for record in records(settings, datasource)) == [b"a", b"b"]
    with Catalogue(settings) as catalogue:
        assert list(catalogue.list("acme", datasource.datasource_id, pending=True)) == []


def test_a_document_that_changes_back_before_it_is_published_is_published_three_times_in_order(
    settings, repository, datasource, uploads
):
    for title in ("One", "Two", "One"):
        uploads.record([prepare(document(title=title), datasource)], datasource)

    assert repository.publish_pending(datasource) == 3
    keys = [key_of(PipeStream.FromString(record.value)) for record in records(settings, datasource)]
    with open_store(settings.store_uri, settings) as store:
        titles = [PipeDoc.FromString(store.get(key)).search_metadata.title for key in keys]
    assert titles == ["One", "Two", "One"]


def test_two_processes_take_turns_at_one_datasource(settings, repository, datasource):
    with Repository(settings) as other:
        for number in range(3):
            assert repository.upload(document(f"a-{number}"), datasource).published
            assert other.upload(document(f"b-{number}"), datasource).published

    keys = sorted(record.key.decode() for record in records(settings, datasource))
    assert keys == ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"]


def test_a_relay_may_publish_for_longer_than_an_answer_of_postgresql_may_take(
    settings, datasource, uploads, monkeypatch
):
    uploads.record([prepare(document(), datasource)], datasource)
    send = Relay._send

    def send_slowly(*arguments):
        time.sleep(3.5)
        send(*arguments)

    monkeypatch.setattr(Relay, "_send", send_slowly)
    with closing(Tables(settings, answer_timeout_s=3)) as tables:
        outbox = Outbox(tables)
        with closing(Relay(settings, outbox, datasource.datasource_id)) as relay:
            published = relay.publish_waiting()
        with outbox.lock(datasource.datasource_id) as is_free:
            assert is_free

    assert len(published) == len(records(settings, datasource)) == 1


def test_a_relay_that_was_overtaken_publishes_nothing_more(settings, repository, datasource, uploads):
    repository.upload(document("first"), datasource)
    overtaken = repository._relays[datasource.datasource_id]
    with Repository(settings) as other:
        other.upload(document("second"), datasource)
        uploads.record([prepare(document("waiting"), datasource)], datasource)

        with pytest.raises(Overtaken):
            overtaken.publish_waiting()

    assert sorted(record.key for record in records(settings, datasource)) == [b"first", b"second"]
    assert repository.publish_pending(datasource) == 1
    assert sorted(record.key for record in records(settings, datasource)) == [b"first", b"second", b"waiting"]


def test_documents_that_a_version_without_an_outbox_recorded_are_published(settings, repository, datasource):
    upload = repository.upload(document(), datasource)
    with psycopg.connect(settings.postgres_dsn.get_secret_value(), autocommit=True) as connection:
        connection.execute("UPDATE documents SET published_at = NULL")

    assert repository.publish_pending(datasource) == 1
    assert repository.publish_pending(datasource) == 0

    keys = [key_of(PipeStream.FromString(record.value)) for record in records(settings, datasource)]
    assert keys == [upload.object_key] * 2


def test_a_datasource_without_an_intake_topic_is_refused_before_anything_is_stored(settings, repository, unique):
    absent = Datasource(f"{unique}-absent", "acme", "triage")

    with pytest.raises(TopicMissing, match="apply the graph that needs it"):
        repository.upload(document(), absent)
    with open_store(settings.store_uri, settings) as store:
        assert list(store.list("documents")) == []


def test_an_intake_topic_is_never_made_by_an_upload(settings, repository, unique):
    absent = Datasource(f"{unique}-absent", "acme", "triage")
    with pytest.raises(TopicMissing):
        repository.upload(document(), absent)

    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    assert f"intake.{unique}-absent" not in admin.list_topics(timeout=120).topics


def test_a_paused_datasource_still_takes_documents_in(settings, repository, datasource):
    repository.upload(document(), dataclasses.replace(datasource, paused=True))

    assert len(records(settings, datasource)) == 1


def test_documents_before_one_with_a_bad_id_are_uploaded(settings, repository, datasource):
    uploads = repository.upload_many([document("good"), document("../bad"), document("never")], datasource)

    assert next(uploads).doc_id == "good"
    with pytest.raises(IdInvalid, match="bad"):
        next(uploads)
    assert [record.key for record in records(settings, datasource)] == [b"good"]


def test_an_object_store_that_is_not_there_stops_before_the_catalogue(settings, datasource):
    aimed_wrong = settings.model_copy(update={"store_uri": "s3://no-such-bucket/x"})

    with (
        Repository(aimed_wrong) as repository,
        pytest.raises(StoreRefused, match="bucket does not exist"),
    ):
        repository.upload(document(), datasource)
    with Catalogue(settings) as catalogue:
        assert catalogue.list("acme", datasource.datasource_id) == []


def test_a_broker_that_is_not_there_is_an_error(settings, datasource):
    aimed_wrong = settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:1", "kafka_timeout_s": 1.0})

    with Repository(aimed_wrong) as repository, pytest.raises(BrokerUnavailable):
        repository.upload(document(), datasource)


def test_an_object_that_a_deletion_took_before_the_upload_was_recorded_is_stored_again(
    settings, uploads, datasource, monkeypatch
):
    blob_key = f"blobs/acme/{datasource.datasource_id}/doc-1/b"
    prepared = dataclasses.replace(prepare(document(), datasource), blobs=((blob_key, b"blob"),))
    desk = Desk(settings)
    deleted = []

    def delete_all(point):
        if point == faults.UPLOAD_STORED:
            deleted.append(desk.delete("acme", datasource.datasource_id, "doc-1", purge=True))

    try:
        monkeypatch.setattr(faults, "reach", delete_all)
        (recorded,) = uploads.record([prepared], datasource)
    finally:
        desk.close()

    assert deleted == [(False, 2)]
    assert uploads.store.get(recorded.row.object_key) == prepared.data
    assert uploads.store.get(blob_key) == b"blob"


def test_an_upload_that_is_deleted_at_once_is_not_stored_again(uploads, datasource, monkeypatch):
    def delete_all(point):
        if point == faults.UPLOAD_RECORDED:
            assert uploads.catalogue.remove("acme", datasource.datasource_id, "doc-1")
            uploads.store.delete_many(list(uploads.store.list()))

    monkeypatch.setattr(faults, "reach", delete_all)
    uploads.record([prepare(document(), datasource)], datasource)

    assert list(uploads.store.list()) == []


def test_a_purge_leaves_what_is_uploaded_meanwhile(settings, datasource, monkeypatch):
    desk = Desk(settings)
    try:
        desk.take_in(desk.prepare(document(), datasource), datasource)
        remove = desk.uploads.catalogue.remove

        def remove_and_upload(*place):
            was_there = remove(*place)
            desk.take_in(desk.prepare(document(title="Two"), datasource), datasource)
            return was_there

        monkeypatch.setattr(desk.uploads.catalogue, "remove", remove_and_upload)
        assert desk.delete("acme", datasource.datasource_id, "doc-1", purge=True) == (True, 1)

        found = desk.find("acme", datasource.datasource_id, "doc-1")
        assert desk.read(DocumentPlace(found.object_key))[0].search_metadata.title == "Two"
    finally:
        desk.close()
