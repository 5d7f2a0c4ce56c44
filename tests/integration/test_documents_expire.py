"""Documents expire, and are deleted by id, on real servers: nothing that a record still refers to goes by itself."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from pipestream.dead_letters import Act
from pipestream.deployment.versions import GraphVersions
from pipestream.documents.catalogue import Catalogue
from pipestream.documents.references import blob_key
from pipestream.documents.repository import Repository
from pipestream.errors import RequestInvalid
from pipestream.graph.load import check_graph_text
from pipestream.kafka.broker import Broker
from pipestream.retention.expire import expire_documents
from pipestream.wire import DocumentReference, PipeDoc, PipeStream, StreamMetadata
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.retention import delete_before

pytestmark = pytest.mark.stack

GRACE = timedelta(hours=1)


@pytest.fixture
def graph_text(graph_text):
    """The small graph, with documents that expire at once."""
    return (
        graph_text.replace("    entry: first\n", "    entry: first\n    keep_documents_hours: 0.0001\n")
        .replace("  - id: first\n", "  - id: first\n    keep_documents_hours: 0.0001\n")
        .replace("  - id: second\n", "  - id: second\n    keep_documents_hours: 0.0001\n")
    )


@pytest.fixture
def letters(letters_of_own_topics):
    return letters_of_own_topics


def expire_now(settings):
    """Look for expired documents twice, a grace period apart, and return what the second look did."""
    soon = datetime.now(UTC) + timedelta(minutes=5)
    expire_documents(settings, soon, grace=GRACE)
    return expire_documents(settings, soon + GRACE + timedelta(minutes=1), grace=GRACE)


def forget_records(settings, topic):
    """Do what retention does, to all records of a topic."""
    broker = Broker(settings)
    for partition, end in broker.written_ends(topic, broker.identify(topic).partitions).items():
        if end:
            delete_before(settings, topic, partition, end)


def stored(store, root="streams"):
    return sorted(store.list(root))


def test_what_waits_what_died_and_what_a_backfill_could_read_keeps_its_document(letters, settings, store):
    letters.pipeline.send(letters.intake, ["good", "bad"])
    letters.drain(letters.intake)
    waiting = stored(store)
    assert len(waiting) == 2

    assert expire_now(settings).deleted == 0, "records wait for them"
    letters.drain(letters.second)
    assert set(letters.pipeline.doc_ids(letters.happy_end)) == {"good"}
    assert len(letters.listed()) == 1
    drained = stored(store)

    assert expire_now(settings).deleted == 0, "a backfill could read them"
    assert stored(store) == drained

    forget_records(settings, letters.intake)
    forget_records(settings, letters.second)
    forget_records(settings, letters.happy_end)
    assert expire_now(settings).deleted == len(drained) - 1
    (kept,) = stored(store)
    assert kept in waiting

    letters.fix()
    letters.act(Act.REPLAY, "replay")
    letters.drain(letters.second)
    assert set(letters.pipeline.doc_ids(letters.happy_end)) == {"bad"}


def test_an_object_whose_transaction_is_still_open_is_there_when_it_commits(letters, settings, store, unique):
    key = "streams/acme/s-1/first.pb"
    store.put(key, PipeDoc(doc_id="late").SerializeToString())
    soon = datetime.now(UTC) + timedelta(minutes=5)
    assert expire_documents(settings, soon, grace=GRACE).unreferenced == 1

    reference = DocumentReference(doc_id="late", source_node_id="first", account_id="acme")
    stream = PipeStream(
        stream_id="s-1", current_node_id="second", metadata=StreamMetadata(account_id="acme"), document_ref=reference
    )
    letters.pipeline.send_streams(letters.second, [stream])

    assert expire_documents(settings, soon + GRACE * 2, grace=GRACE).deleted == 0
    letters.drain(letters.second)
    assert set(letters.pipeline.doc_ids(letters.happy_end)) == {"late"}


def test_a_dead_letter_in_a_topic_that_no_applied_graph_names_keeps_its_document(
    settings, store, unique, graph_text, tmp_path, letters
):
    changed = graph_text.replace("  - id: second\n", f"  - id: second\n    dead_letters: {{topic: letters-{unique}}}\n")
    file = tmp_path / "changed.yaml"
    file.write_text(changed)
    not_applied = Pipeline(settings, file)
    not_applied.create_topics()
    not_applied.send(letters.intake, ["bad"])
    not_applied.drain(letters.intake, "run-1")
    not_applied.drain(letters.second, "run-2")
    (letter,) = not_applied.read(f"letters-{unique}")
    forget_records(settings, letters.second)

    assert expire_now(settings).deleted == 0

    assert stored(store) == [f"streams/acme/{letter.stream.stream_id}/first.pb"]


def test_an_upload_expires_with_its_row_once_its_intake_record_is_gone(letters, settings, store):
    source = letters.pipeline.graph.datasources[0]
    with Repository(settings) as repository:
        repository.upload(PipeDoc(doc_id="doc"), source)

    assert expire_now(settings).deleted == 0
    forget_records(settings, letters.intake)
    assert expire_now(settings).deleted == 1

    assert stored(store, "documents") == []
    with Catalogue(settings) as catalogue:
        assert catalogue.find("acme", source.datasource_id, "doc") is None


def test_without_a_word_in_any_graph_nothing_is_looked_at(graph_text, settings):
    silent = graph_text.replace("    keep_documents_hours: 0.0001\n", "")
    with closing(GraphVersions(settings)) as versions:
        versions.save(check_graph_text(silent.encode(), "graph").require(), applied_by="test")

    done = expire_documents(settings, datetime.now(UTC))

    assert (done.records, done.objects, done.deleted) == (0, 0, 0)


def test_a_grace_period_that_is_too_short_is_refused(settings):
    with pytest.raises(RequestInvalid, match="at least 1:00:00"):
        expire_documents(settings, datetime.now(UTC), grace=timedelta(minutes=59))


def test_a_document_is_deleted_by_its_id_when_nothing_refers_to_it(letters, settings, store, run, unique):
    source = letters.pipeline.graph.datasources[0]
    with Repository(settings) as repository:
        for number in range(2):
            document = PipeDoc(doc_id="doc")
            document.search_metadata.title = f"version {number}"
            repository.upload(document, source)
        repository.upload(PipeDoc(doc_id="other"), source)
    for doc_id in ("doc", "other"):
        store.put(blob_key("acme", unique, doc_id, "a" * 64), b"a blob")
    letters.drain(letters.intake)
    outputs = stored(store)
    command = ["documents", "delete", "--datasource", unique, "--outputs", "doc"]

    shown = run(*command, "--json").json()
    assert not shown["deleted"]
    assert len(shown["documents"][0]["uploads"]) == 2
    assert len(shown["documents"][0]["outputs"]) == 2
    assert len(stored(store, "documents")) == 3

    refused = run(*command, "--yes")
    assert refused.code == 2
    assert "--even-if-referenced" in refused.err
    assert len(stored(store, "documents")) == 3

    forget_records(settings, letters.intake)
    forget_records(settings, letters.second)
    assert run(*command, "--yes").code == 0

    assert len(stored(store, "documents")) == 1
    assert list(store.list("blobs")) == [blob_key("acme", unique, "other", "a" * 64)]
    assert len(stored(store)) == len(outputs) - 2
    with Catalogue(settings) as catalogue:
        assert catalogue.find("acme", unique, "doc") is None
        assert catalogue.find("acme", unique, "other") is not None
    again = run(*command, "--yes")
    assert (again.code, "nothing is left" in again.out) == (0, True)


def test_a_delete_that_was_killed_before_its_objects_went_is_finished_by_the_next(
    letters, settings, store, run, unique
):
    source = letters.pipeline.graph.datasources[0]
    with Repository(settings) as repository:
        repository.upload(PipeDoc(doc_id="doc"), source)
    forget_records(settings, letters.intake)
    with Catalogue(settings) as catalogue:
        assert catalogue.remove("acme", unique, "doc")  # as far as it came

    assert run("documents", "delete", "--datasource", unique, "--yes", "doc").code == 0

    assert stored(store, "documents") == []


def test_a_datasource_that_no_graph_has_is_named(letters, run):
    result = run("documents", "delete", "--datasource", "elsewhere", "doc")

    assert result.code == 2
    assert "no graph that was applied has a datasource elsewhere" in result.err
