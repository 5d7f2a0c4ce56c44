from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from pipestream.documents.catalogue import Catalogue, Row
from pipestream.documents.outbox import Announcement, LaneLost, Outbox
from pipestream.documents.tables import Tables
from pipestream.errors import DatabaseRefused, DatabaseUnavailable

pytestmark = pytest.mark.stack

ROW = Row("acme", "files", "doc-1", "documents/acme/files/doc-1/a.pb", "a" * 64, 12, "text/plain", "One")


@pytest.fixture
def tables(settings):
    with closing(Tables(settings)) as opened:
        yield opened


@pytest.fixture
def catalogue(settings, tables):
    with Catalogue(settings, tables) as opened:
        yield opened


@pytest.fixture
def outbox(tables):
    return Outbox(tables)


def reference(row):
    return Announcement(row.account_id, row.datasource_id, row.doc_id, row.object_key, b"value", {"name": "value"})


def settle_all(outbox):
    """Bring what waits to its end, as if it were published."""
    token, _ = outbox.take_over("files")
    outbox.settle("files", token, outbox.claim("files", token, "batch", 100))


def test_says_whether_a_document_is_new_unchanged_or_changed(catalogue):
    outcomes = [
        catalogue.record([row])[0].outcome
        for row in (ROW, ROW, replace(ROW, checksum="b" * 64), replace(ROW, checksum="b" * 64), ROW)
    ]

    assert outcomes == ["new", "unchanged", "changed", "unchanged", "changed"]


def test_a_changed_document_gets_the_next_version_and_is_to_be_published_again(catalogue, outbox):
    catalogue.record([ROW], reference)
    settle_all(outbox)
    assert catalogue.find("acme", "files", "doc-1").published_at is not None

    changed = replace(ROW, checksum="b" * 64, object_key="k2", title="Two", size_bytes=13)
    (recorded,) = catalogue.record([changed])

    assert (recorded.row.version, recorded.row.published_at) == (2, None)
    assert (recorded.row.title, recorded.row.object_key, recorded.row.size_bytes) == ("Two", "k2", 13)
    assert catalogue.find("acme", "files", "doc-1") == recorded.row


def test_a_document_that_changed_while_its_reference_was_on_its_way_stays_pending(catalogue, outbox):
    catalogue.record([ROW], reference)
    token, _ = outbox.take_over("files")
    batch = outbox.claim("files", token, "batch-1", 100)
    catalogue.record([replace(ROW, checksum="b" * 64, object_key="k2")], reference)

    outbox.settle("files", token, batch)

    assert catalogue.find("acme", "files", "doc-1").published_at is None
    assert catalogue.waiting("files", [ROW.object_key, "k2"]) == {"k2"}


def test_a_document_is_recorded_with_its_reference_or_not_at_all(catalogue, outbox):
    def fail(_row):
        raise DatabaseUnavailable("cut off")

    with pytest.raises(DatabaseUnavailable):
        catalogue.record([ROW], fail)

    assert catalogue.find("acme", "files", "doc-1") is None
    assert outbox.counts() == {}


def test_only_the_relay_that_took_over_last_claims_and_settles(catalogue, outbox):
    catalogue.record([ROW], reference)
    old, nothing = outbox.take_over("files")
    batch = outbox.claim("files", old, "batch-1", 100)

    new, left = outbox.take_over("files")

    assert (nothing, left) == (None, batch)
    with pytest.raises(LaneLost):
        outbox.claim("files", old, "batch-2", 100)
    with pytest.raises(LaneLost):
        outbox.settle("files", old, batch)
    outbox.settle("files", new, left)
    assert outbox.counts() == {}


def test_a_document_whose_reference_waits_is_not_forgotten_and_a_removed_one_is_not_published(catalogue, outbox):
    place = ("acme", "files", "doc-1")
    catalogue.record([ROW], reference)
    settle_all(outbox)
    catalogue.record([ROW], reference, force=True)

    assert not catalogue.forget(*place, ROW.object_key)
    assert catalogue.remove(*place)
    assert outbox.counts() == {}
    assert catalogue.forget(*place, ROW.object_key)


def test_several_documents_are_recorded_in_the_order_given(catalogue):
    catalogue.record([ROW])

    recorded = catalogue.record([replace(ROW, doc_id="z"), ROW, replace(ROW, doc_id="a")])

    assert [(entry.row.doc_id, entry.outcome) for entry in recorded] == [
        ("z", "new"),
        ("doc-1", "unchanged"),
        ("a", "new"),
    ]


def test_a_document_that_is_removed_while_it_is_recorded_is_new(catalogue, monkeypatch):
    catalogue.record([ROW])
    insert = catalogue._insert
    removed = []

    def insert_and_lose(connection, rows):
        found = insert(connection, rows)
        if not removed:
            removed.append(catalogue.remove("acme", "files", "doc-1"))
        return found

    monkeypatch.setattr(catalogue, "_insert", insert_and_lose)
    recorded = catalogue.record([replace(ROW, doc_id="a"), ROW])

    assert removed == [True]
    assert [entry.outcome for entry in recorded] == ["new", "new"]
    assert catalogue.find("acme", "files", "doc-1") == recorded[1].row


def test_lists_the_documents_of_one_datasource_page_by_page(catalogue, outbox):
    rows = [replace(ROW, doc_id=f"doc-{number}") for number in range(5)]
    catalogue.record([rows[1]], reference)
    settle_all(outbox)
    catalogue.record([*rows, replace(ROW, datasource_id="other", doc_id="foreign")])

    first = catalogue.list("acme", "files", limit=3)
    rest = catalogue.list("acme", "files", after=first[-1].doc_id)
    pending = catalogue.list("acme", "files", pending=True)

    assert [row.doc_id for row in first] == ["doc-0", "doc-1", "doc-2"]
    assert [row.doc_id for row in rest] == ["doc-3", "doc-4"]
    assert [row.doc_id for row in pending] == ["doc-0", "doc-2", "doc-3", "doc-4"]


def test_finds_nothing_where_there_is_nothing(catalogue):
    assert catalogue.find("acme", "files", "doc-1") is None
    assert catalogue.list("acme", "files") == []
    assert catalogue.record([]) == []


def test_many_writers_of_the_same_documents_find_each_new_exactly_once(settings):
    rows = [replace(ROW, doc_id=f"doc-{number}") for number in range(50)]
    outcomes: list[str] = []
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)

    def write(part: list[Row]) -> None:
        try:
            with Catalogue(settings) as catalogue:
                barrier.wait(120)
                outcomes.extend(entry.outcome for entry in catalogue.record(part))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(rows[:: 1 if n % 2 else -1],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)

    assert failures == []
    assert (outcomes.count("new"), outcomes.count("unchanged")) == (50, 150)


def test_a_database_that_is_not_there_is_an_error_without_the_password(settings):
    aimed_wrong = settings.model_copy(
        update={"postgres_dsn": type(settings.postgres_dsn)("postgresql://u:s3cret@127.0.0.1:1/none")}
    )

    with Catalogue(aimed_wrong) as catalogue, pytest.raises(DatabaseUnavailable) as caught:
        catalogue.find("a", "b", "c")

    assert "PIPESTREAM_POSTGRES_DSN" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_deletion_is_known_for_a_while(settings, catalogue):
    place = ("acme", "files", "doc-1")
    other = replace(ROW, doc_id="doc-2")
    assert catalogue.deleted_lately([ROW, other]) == set()

    catalogue.remove(*place)
    catalogue.note_deletions([place, place])
    assert catalogue.deleted_lately([ROW, other]) == {place}

    with psycopg.connect(settings.postgres_dsn.get_secret_value(), autocommit=True) as connection:
        connection.execute("UPDATE deletions SET noted_at = now() - interval '3 hours'")
        assert catalogue.deleted_lately([ROW]) == set()
        catalogue.note_deletions([other.key])
        assert connection.execute("SELECT doc_id FROM deletions").fetchall() == [("doc-2",)]


def test_a_server_that_does_not_answer_is_given_up(settings):
    """A server that was stopped enforces no limit of its own."""
    with (
        closing(Tables(settings, answer_timeout_s=0.5)) as tables,
        pytest.raises(DatabaseUnavailable),
        tables.connection() as connection,
    ):
        connection.execute("SET statement_timeout = 0; SELECT pg_sleep(600)")


def test_a_statement_that_postgresql_refuses_is_not_worth_a_repeat(tables):
    with pytest.raises(DatabaseRefused, match="no_such_column"), tables.connection() as connection:
        connection.execute("SELECT no_such_column FROM documents")
