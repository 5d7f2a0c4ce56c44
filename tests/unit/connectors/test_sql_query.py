from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice

import pytest
from google.protobuf.json_format import MessageToDict

from pipestream.connectors.connector import Seen, Unreadable
from pipestream.connectors.registry import make_connector
from pipestream.connectors.sql_query import decode_value, encode_value
from pipestream.errors import ConnectorInvalid, DatabaseUnavailable, PipestreamError, SettingsInvalid, SourceUnreadable
from pipestream.graph.model import Connector
from pipestream.plugins import PluginContext
from pipestream.settings import Settings
from pipestream.wire import PipeDoc
from pipestream_testing.remembered import Remembered

OPTIONS = {"url_secret": "db", "query": "SELECT * FROM docs", "column": "at", "id": ["id"]}


@pytest.fixture
def database(tmp_path):
    file = tmp_path / "docs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE docs (id INTEGER PRIMARY KEY, at INTEGER, title TEXT, data BLOB)")

    def change(statement, *rows):
        with sqlite3.connect(file) as connection:
            connection.executemany(statement, rows) if rows else connection.execute(statement)

    change.url = f"sqlite:///{file}"
    return change


DAY = datetime(2026, 1, 2).date()
INSERT = "INSERT INTO docs (id, at, title) VALUES (?, ?, ?)"


def connect(url, **options):
    context = PluginContext(Settings(plugin_secrets={"db": url}))
    return make_connector(Connector("sql", {**OPTIONS, **options}), context)


def read(url, memory, **options):
    found = memory.keep(list(connect(url, **options).changes(memory)))
    return [each for each in found if not isinstance(each, Seen)]


def titles(found):
    return [each.search_metadata.custom_fields["title"] for each in found]


def test_colons_in_a_query_are_not_parameters(database):
    database(INSERT, (1, 10, "a"))
    query = """SELECT id, at, '{"a":1} :b ::' AS title FROM docs"""

    assert titles(read(database.url, Remembered(), query=query)) == ['{"a":1} :b ::']


def test_each_row_becomes_a_document_and_the_next_run_takes_what_is_new(database):
    database(INSERT, (1, 10, "a"), (2, 20, "b"))
    memory = Remembered()

    first = read(database.url, memory)
    database(INSERT, (3, 30, "c"), (4, 15, "too early"))
    second = read(database.url, memory)

    assert titles(first) == ["a", "b"]
    assert MessageToDict(first[0].search_metadata.custom_fields) == {"id": 1.0, "at": 10.0, "title": "a", "data": None}
    # The row of the last value is read again; the catalogue knows it.
    assert titles(second) == ["b", "c"]
    assert second[0] == first[1]


def test_a_row_with_the_last_value_that_came_later_is_not_missed(database):
    database(INSERT, (5, 10, "a"))
    memory = Remembered()
    read(database.url, memory)
    database(INSERT, (1, 10, "the same value, and a smaller id"))

    assert len(read(database.url, memory)) == 2


def test_an_overlap_reads_again_what_is_below_the_last_value_and_the_state_never_moves_back(database):
    database(INSERT, (1, 10, "a"), (2, 20, "b"))
    memory = Remembered()
    read(database.url, memory, overlap=5)
    database(INSERT, (3, 16, "late"))

    assert titles(read(database.url, memory, overlap=5)) == ["late", "b"]
    assert memory.states["column"] == {"type": "int", "value": "20"}


def test_states_stand_only_between_two_values_so_that_no_limit_stops_within_one(database):
    database(INSERT, *[(number, number // 3, "x") for number in range(9)])

    found = list(connect(database.url).changes(Remembered()))

    assert ["state" if isinstance(each, Seen) else "row" for each in found] == (["row"] * 3 + ["state"]) * 3


def test_a_limit_smaller_than_the_rows_of_one_value_still_gets_on(database):
    """A run that stops at the first state has read one value more than the run before."""
    database(INSERT, *[(number, number // 3, "x") for number in range(9)])
    memory = Remembered()
    values = []
    for _ in range(3):
        for each in connect(database.url).changes(memory):
            memory.keep([each])
            if isinstance(each, Seen):
                break
        values.append(memory.states["column"]["value"])

    assert values == ["0", "1", "2"]


def test_rows_without_a_value_are_reported_by_every_run(database):
    database(INSERT, (1, None, "x"), (2, 1, "y"))
    memory = Remembered()

    for _ in range(2):
        (bad,) = [each for each in read(database.url, memory) if isinstance(each, Unreadable)]
        assert bad == Unreadable("row 1", "its at is NULL; give it a value")


def test_columns_fill_fields_bytes_among_them(database):
    database("INSERT INTO docs VALUES (1, 1, 'T', x'00ff')")

    (document,) = read(
        database.url, Remembered(), fields={"search_metadata.title": "title", "blob_bag.blob.data": "data"}
    )

    assert (document.search_metadata.title, document.blob_bag.blob.data) == ("T", b"\0\xff")


def test_bytes_that_fill_no_field_are_reported_with_what_to_do(database):
    database("INSERT INTO docs VALUES (1, 1, 'T', x'00ff')")

    assert "holds bytes; name it in fields" in read(database.url, Remembered())[0].reason


def test_a_large_table_is_read_as_it_is_used(database):
    database(INSERT, *[(number, number, "x" * 1000) for number in range(3_000)])

    assert all(isinstance(each, (PipeDoc, Seen)) for each in islice(connect(database.url).changes(Remembered()), 10))


@pytest.mark.parametrize("value", [3, -(2**70), 1.5, Decimal("1.10"), "b", datetime(2026, 1, 2, tzinfo=UTC), DAY])
def test_a_value_is_remembered_as_it_was(value):
    assert decode_value(encode_value(value)) == value
    assert type(decode_value(encode_value(value))) is type(value)


@pytest.mark.parametrize("value", [True, b"x", object()])
def test_a_column_that_cannot_grow_is_refused(value):
    with pytest.raises(SourceUnreadable, match="cannot be the growing column; take a number, a text or a time"):
        encode_value(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "DELETE FROM docs"}, "it must begin with SELECT or WITH"),
        ({"query": "SELECT 1; DROP TABLE docs"}, "leave the semicolon out"),
        ({"id": []}, "id: List should have at least 1 item"),
        ({"url_secret": ""}, "url_secret is missing; set it: The name of the secret"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ConnectorInvalid, match=message):
        connect("sqlite://", **options)


def test_a_secret_that_is_missing_or_not_a_url_is_named_and_never_shown():
    with pytest.raises(SettingsInvalid, match="the secret 'db' is not set"):
        make_connector(Connector("sql", OPTIONS), PluginContext(Settings()))
    with pytest.raises(ConnectorInvalid, match="the secret db is not a URL of SQLAlchemy") as caught:
        connect("hunter2 is not a url")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConnectorInvalid, match=r"the driver .* is not installed"):
        connect("mysql+pymysql://u:hunter2@host/db")


def test_a_query_or_a_column_that_the_database_does_not_have_is_named(database):
    with pytest.raises(PipestreamError, match="no such table: nowhere"):
        read(database.url, Remembered(), query="SELECT * FROM nowhere")
    with pytest.raises(PipestreamError, match="no such column"):
        read(database.url, Remembered(), column="nowhere")


def test_a_database_that_does_not_answer_is_transient_and_its_password_stays_hidden():
    with pytest.raises(DatabaseUnavailable) as caught:
        read("postgresql+psycopg://me:hunter2@127.0.0.1:1/none?connect_timeout=2", Remembered())
    assert "hunter2" not in str(caught.value)
