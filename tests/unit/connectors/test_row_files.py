from __future__ import annotations

import gzip
import os
import tracemalloc
from itertools import islice

import pytest
from google.protobuf.json_format import MessageToDict

from pipestream.connectors.connector import IncrementalConnector, LeftOut, NoMemory, Seen, Unreadable
from pipestream.connectors.registry import make_connector
from pipestream.errors import ConnectorInvalid, SourceUnreadable
from pipestream.graph.model import Connector
from pipestream.ids import check_key_part
from pipestream.plugins import PluginContext
from pipestream.settings import Settings
from pipestream.wire import PipeDoc
from pipestream_testing.remembered import Remembered


@pytest.fixture
def memory():
    return Remembered()


def connect(kind, path, **options):
    made = make_connector(Connector(kind, {"path": str(path), **options}), PluginContext(Settings()))
    assert isinstance(made, IncrementalConnector)
    return made


def read(kind, path, memory=None, **options):
    """Return what a run finds, without the states, which the memory keeps."""
    found = list(connect(kind, path, **options).changes(memory or NoMemory()))
    if memory is not None:
        memory.keep(found)
    return [each for each in found if not isinstance(each, Seen)]


def custom(document):
    return MessageToDict(document.search_metadata.custom_fields)


def test_each_line_becomes_a_document_whose_columns_fill_the_named_fields(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"key": 7, "head": "One", "by": {"name": "Ann"}, "left": [1, null], "n": 12345678901234567890}\n')

    (document,) = read(
        "jsonl", file, id=["key"], fields={"search_metadata.title": "head", "search_metadata.author": "by.name"}
    )

    assert (document.search_metadata.title, document.search_metadata.author) == ("One", "Ann")
    assert custom(document)["left"] == [1.0, None]
    assert custom(document)["n"] == "12345678901234567890"
    assert document.search_metadata.source_uri == "file:///rows.jsonl#1"
    assert check_key_part(document.doc_id, "id").startswith("7-")


def test_the_rest_of_a_row_is_kept_only_if_wanted(tmp_path):
    (tmp_path / "a.csv").write_text("title,secret\nOne,x\n")

    (document,) = read("csv", tmp_path, fields={"search_metadata.title": "title"}, keep_rest=False)

    assert document.search_metadata.title == "One"
    assert not document.search_metadata.HasField("custom_fields")


def test_csv_with_quotes_line_ends_in_them_and_a_byte_order_mark(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfid;text\r\n1;"two\r\nlines; and ""quotes"""\r\n2;plain\r\n')

    found = read("csv", tmp_path, id=["id"], delimiter=";")

    assert [custom(each) for each in found] == [
        {"id": "1", "text": 'two\r\nlines; and "quotes"'},
        {"id": "2", "text": "plain"},
    ]


def test_csv_without_a_first_row_of_names_takes_them_from_the_options(tmp_path):
    (tmp_path / "a.csv").write_text("1,x\n")

    (document,) = read("csv", tmp_path, columns=["id", "text"])

    assert custom(document) == {"id": "1", "text": "x"}


@pytest.mark.parametrize(
    ("kind", "first", "more"),
    [("jsonl", '{"n": 1}\n{"n": 2}\n', '{"n": 3}\n'), ("csv", "n,m\n1,a\n2,b\n", '3,"c\nd"\n')],
)
def test_a_file_that_has_grown_is_continued_where_it_ended(tmp_path, memory, kind, first, more):
    file = tmp_path / f"rows.{kind}"
    file.write_text(first)
    before = read(kind, file, memory)
    unchanged = read(kind, file, memory)
    with file.open("a") as opened:
        opened.write(more)

    after = read(kind, file, memory)

    assert len(before) == 2
    assert unchanged == [LeftOut(file.name, "the file is unchanged since an earlier run")]
    assert [str(custom(each)["n"]).removesuffix(".0") for each in after] == ["3"]
    assert after == read(kind, file)[2:], "a row has the same id whether or not the run began before it"


def test_a_file_that_was_replaced_is_read_from_its_beginning(tmp_path, memory):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"n": 1}\n{"n": 2}\n')
    read("jsonl", file, memory)
    file.write_text('{"n": 8}\n{"n": 9}\n{"n": 10}\n')

    assert [custom(each)["n"] for each in read("jsonl", file, memory)] == [8, 9, 10]


def test_a_run_that_ended_in_the_middle_of_a_file_is_continued_there(tmp_path, memory):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(10)))
    first = memory.keep(list(islice(connect("jsonl", file).changes(memory), 8)))

    rest = read("jsonl", file, memory)

    numbers = [custom(each)["n"] for each in (*first, *rest) if isinstance(each, PipeDoc)]
    assert numbers == list(range(10))


def test_a_last_row_without_a_line_end_is_taken_and_read_again_when_it_grows(tmp_path, memory):
    file = tmp_path / "rows.csv"
    file.write_text("n,text\n1,a\n2,b")
    first = read("csv", file, memory)
    with file.open("a") as opened:
        opened.write("cd\n")

    second = read("csv", file, memory)

    assert [custom(each)["text"] for each in first] == ["a", "b"]
    assert [custom(each)["text"] for each in second] == ["bcd"]
    assert second[0].doc_id == first[1].doc_id


def test_a_compressed_file_is_read_and_continued(tmp_path, memory):
    file = tmp_path / "rows.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"n": 1}\n'))
    first = read("jsonl", tmp_path, memory)
    file.write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))

    second = read("jsonl", tmp_path, memory)

    assert [custom(each)["n"] for each in (*first, *second)] == [1, 2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{nope}", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"n": NaN}', "NaN is not JSON"),
        (b'{"n": "\xff"}', "not UTF-8"),
        (b'{"n": "\\ud800"}', "column n"),
        (b"[" * 100_000, "not JSON"),
        (b'{"n": ' + b"[" * 50 + b"]" * 50 + b"}", "nested deeper than 20 levels"),
        (b'{"n": 1' + b"0" * 400 + b".0}", "which JSON cannot hold"),
        (b'{"n": "' + b"x" * 200_000 + b'"}', "longer than max_row_bytes, 150000"),
        (b'{"m": 1}', "there is no column n; it has m"),
        (b'{"n": null}', "column n is to name the row, and its value is empty"),
    ],
    ids=lambda value: value[:20].decode(errors="replace") if isinstance(value, bytes) else "",
)
def test_a_row_that_cannot_be_read_is_reported_and_the_others_are_taken(tmp_path, memory, line, reason):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"n": 1}\n' + line + b'\n\n{"n": 3}\n')

    first, bad, third = read("jsonl", file, memory, id=["n"], max_row_bytes=150_000)

    assert isinstance(bad, Unreadable)
    assert bad.source == "rows.jsonl row 2"
    assert reason in bad.reason
    assert (custom(first)["n"], custom(third)["n"]) == (1, 3)
    (again,) = read("jsonl", file, memory, id=["n"], max_row_bytes=150_000)
    assert "could not read some of its rows" in again.reason


def test_rows_of_csv_that_cannot_be_read_are_reported_and_the_others_are_taken(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'a,b\n1,2\n1,2,3\n"x"y,2\n\xff,1\n3,4\n')

    found = read("csv", tmp_path)

    assert [each.reason for each in found if isinstance(each, Unreadable)] == [
        "3 columns instead of 2",
        "not CSV: ',' expected after '\"'",
        "not UTF-8",
    ]
    assert len(found) == 5


@pytest.mark.parametrize("limit", [100, 1_000_000])
def test_a_quote_that_is_not_closed_stops_its_file_and_is_reported_until_it_is_closed(tmp_path, memory, limit):
    file = tmp_path / "a.csv"
    file.write_text('a,b\n1,2\n3,"4\n' + "5,6\n" * 50)

    first, bad = read("csv", tmp_path, memory, max_row_bytes=limit)
    (again,) = read("csv", tmp_path, memory, max_row_bytes=limit)
    file.write_text('a,b\n1,2\n3,"4"\n' + "5,6\n" * 50)
    fixed = read("csv", tmp_path, memory, max_row_bytes=limit)

    assert custom(first) == {"a": "1", "b": "2"}
    assert bad == again
    assert "quote" in bad.reason
    assert len(fixed) == 51


def test_a_large_file_is_read_in_little_memory(tmp_path):
    file = tmp_path / "large.csv"
    with file.open("w") as opened:
        opened.write("id,text\n")
        for number in range(1_000):
            opened.write(f"{number},{'x' * 10_000}\n")
    connector = connect("csv", file, id=["id"])
    tracemalloc.start()
    try:
        count = sum(isinstance(each, PipeDoc) for each in connector.changes(NoMemory()))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 1_000
    assert peak_bytes < 2_000_000, f"{file.stat().st_size} bytes were read with {peak_bytes} bytes of memory"


def test_links_out_of_the_folder_and_cut_files_are_reported(tmp_path):
    (tmp_path / "elsewhere.jsonl").write_text("{}\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n' * 1000)[:-12])
    (folder / "not.jsonl.gz").write_bytes(b"plain")
    (folder / "damaged.jsonl.gz").write_bytes(gzip.compress(b"{}\n")[:10] + b"\xff" * 40)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "whole.jsonl").write_text('{"n": 1}\n')

    all_found = read("jsonl", folder)
    found = {each.source: each.reason for each in all_found if isinstance(each, Unreadable)}

    assert "leads out of the folder" in found["link.jsonl"]
    assert "end-of-stream" in found["cut.jsonl.gz"]
    assert "gzip" in found["not.jsonl.gz"]
    assert "decompressing" in found["damaged.jsonl.gz"]
    assert "neither a file" in found["pipe.jsonl"]
    assert isinstance(all_found[-1], PipeDoc), "the file behind them is read"


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SourceUnreadable, match=r"there is no .*none; correct the path"):
        read("jsonl", tmp_path / "none")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("jsonl", {}, "jsonl connector: path is missing; set it"),
        ("csv", {"path": "x", "delimiter": ",,"}, "delimiter: String should have at most 1 character"),
        ("csv", {"path": "x", "columns": ["a", "a"]}, "columns: a column stands there twice"),
        ("csv", {"path": "x", "fields": {"search_metadata.titel": "t"}}, "fields: .*has no field titel; it has author"),
        ("csv", {"path": "x", "fields": {"doc_id": "t"}}, "the option id says which columns name a row"),
        ("csv", {"path": "x", "max_documents": -1}, "max_documents: Input should be greater than or equal to 0"),
    ],
)
def test_options_that_cannot_be_used_are_refused_with_the_reason(kind, options, message):
    with pytest.raises(ConnectorInvalid, match=message):
        make_connector(Connector(kind, options), PluginContext(Settings()))


def test_a_limit_keeps_the_memory_and_another_mapping_starts_over(tmp_path):
    plain = connect("csv", tmp_path)

    assert connect("csv", tmp_path, max_documents=5).scope == plain.scope
    assert connect("csv", tmp_path, fields={"search_metadata.title": "t"}).scope != plain.scope
