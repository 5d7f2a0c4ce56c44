"""Files that are too large, or made to look small: none of them may fill the memory."""

from __future__ import annotations

import pytest

from pipestream.errors import ModuleFailed
from pipestream.modules.documents.parse import parse
from pipestream.modules.documents.sheet_sizes import check_sizes
from pipestream.modules.documents.zips import open_zip
from pipestream.modules.module import HopStatus, ModuleContext
from pipestream.samples.files import excel_file, pdf_file, word_file
from pipestream_testing.files import blob_document, changed_zip, lying_zip, ods_cell, ods_file, ods_row

EXCEL = excel_file("t", "a", {"S": [["x"]]})
SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s</sheetData></worksheet>'
)
CORNERS = SHEET % '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
LAST_ROW = SHEET % '<row r="1"><c><v>1</v></c></row><row r="99999999"><c><v>1</v></c></row>'
FAR_APART = ods_row(ods_cell("a"), ods_cell(repeats=16_000), ods_cell("b")) + ods_row(repeats=900_000)


def run(data: bytes, mime_type: str = "", **config: object):
    return parse(blob_document(data, mime_type), ModuleContext("g", "n", "s", config=config))


@pytest.mark.parametrize(
    ("data", "mime_type", "config", "message"),
    [
        (b"x" * 101, "text/plain", {"max_bytes": 100}, "the file has 101 bytes, and max_bytes is 100"),
        (pdf_file("t", "a", ["x " * 9_000]), "", {"max_pages": 2}, "the PDF has 4 pages, and max_pages is 2"),
        (excel_file("t", "a", {"S": [["x"] * 5] * 4}), "", {"max_cells": 19}, "20 cells, and max_cells is 19"),
        (b"a,b\n1,2\n", "text/csv", {"max_cells": 3}, "the table has 4 cells, and max_cells is 3"),
        (b"word " * 30, "text/plain", {"max_characters": 50}, "149 characters, and max_characters is 50"),
        (pdf_file("t", "a", ["word " * 9_000]), "", {"max_characters": 50}, "and max_characters is 50"),
    ],
)
def test_a_file_beyond_a_limit_fails(data, mime_type, config, message):
    with pytest.raises(ModuleFailed, match=message):
        run(data, mime_type, **config)


@pytest.mark.parametrize(
    ("data", "mime_type", "config", "body"),
    [
        (pdf_file("t", "a", ["x " * 9_000, "the end"]), "", {"max_pages": 2}, "t\nx x"),
        (excel_file("t", "a", {"S": [["x"]], "T": [["y"] * 5]}), "", {"max_cells": 2}, "S\nx"),
        (b"a,b\n1,2\n3,4\n", "text/csv", {"max_cells": 4}, "a b\n1 2"),
        (b"word " * 30, "text/plain", {"max_characters": 9}, "word word"),
    ],
)
def test_a_file_beyond_a_limit_may_continue_in_part_and_says_so(data, mime_type, config, body):
    answer = run(data, mime_type, on_limit="truncate", **config)

    assert answer.status is HopStatus.PARTIAL
    assert answer.problems[0].endswith("the rest was left out")
    assert answer.documents[0].search_metadata.body.startswith(body)
    assert "the end" not in answer.documents[0].search_metadata.body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            changed_zip(word_file("t", "a", ["x"]), word__document_dot_xml=b" " * 5_000_000),
            "a Word file is larger than max_unpacked_bytes",
            id="zip bomb, Word",
        ),
        pytest.param(
            changed_zip(EXCEL, xl__sharedStrings_dot_xml=b" " * 5_000_000),
            "larger than max_unpacked_bytes when it is unpacked; is it a zip bomb",
            id="zip bomb, Excel",
        ),
        pytest.param(
            lying_zip(EXCEL, "xl/worksheets/sheet1.xml", b" " * 3_000_000, stated=100),
            "has another size than the zip file states|larger than max_unpacked_bytes",
            id="a zip bomb that states a small size",
        ),
        pytest.param(
            changed_zip(EXCEL, xl__worksheets__sheet1_dot_xml=CORNERS), "spans 17179869184 cells", id="corners"
        ),
        pytest.param(changed_zip(EXCEL, xl__worksheets__sheet1_dot_xml=LAST_ROW), "spans 99999999 cells", id="rows"),
        pytest.param(
            ods_file(ods_row(ods_cell("a", repeats=16_000), repeats=1_000_000)), "spans 16000000000 cells", id="repeats"
        ),
        pytest.param(
            ods_file(FAR_APART + ods_row(ods_cell("c"))), r"content.xml spans 1440\d+ cells", id="cells far apart"
        ),
    ],
)
def test_a_small_file_that_would_fill_the_memory_is_refused(data, message):
    assert len(data) < 20_000
    with pytest.raises(ModuleFailed, match=message):
        run(data, max_unpacked_bytes=2_000_000)


def test_a_zip_entry_that_states_a_wrong_size_is_refused_whatever_the_limit():
    data = lying_zip(EXCEL, "xl/worksheets/sheet1.xml", b" " * 50_000, stated=100)

    with pytest.raises(ModuleFailed, match=r"xl/worksheets/sheet1\.xml has another size than the zip file states"):
        run(data)


def test_empty_cells_around_a_table_count_for_nothing():
    rest = ods_row(ods_cell(repeats=16_384), repeats=1_048_000)
    data = ods_file(rest + ods_row(ods_cell(repeats=9_000), ods_cell("x")) + rest)
    options = {"max_cells": 1, "max_unpacked_bytes": 100_000}

    with open_zip(data, "a table", options) as opened:
        check_sizes(opened, options)


@pytest.mark.parametrize(
    "data", [b"<div>" * 1_000 + b"x", b"<ul>" + b"<li>" * 20_000 + b"x", b"<p title='" + b"a" * 50_000 + b"'>x"]
)
def test_html_that_a_browser_would_read_is_read(data):
    assert run(data, "text/html").documents[0].search_metadata.body == "x"


@pytest.mark.parametrize("tag", ["div", "b", "table><tr><td"])
def test_html_nested_without_end_is_refused_before_it_costs_minutes(tag):
    with pytest.raises(ModuleFailed, match="nested more than 2000 tags deep"):
        run(f"<{tag}>".encode() * 100_000 + b"x", "text/html")


def test_html_with_a_tag_of_countless_attributes_is_refused_too():
    with pytest.raises(ModuleFailed, match="more than 2000 attributes"):
        run(b"<p" + b"".join(b" a%d=b" % number for number in range(50_000)) + b">x", "text/html")


def test_word_files_resolve_no_entities():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    xml = f'{bomb}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>'
    data = changed_zip(
        word_file("t", "a", ["x"]), word__document_dot_xml=f"{xml}<w:t>x&b;</w:t></w:r></w:p></w:body></w:document>"
    )

    assert run(data).documents[0].search_metadata.body == "x"


def test_a_mail_nested_without_end_is_refused():
    nested = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(10_000))

    with pytest.raises(ModuleFailed, match="the mail has 10000 nested parts"):
        run(b"From: a@b\r\n" + nested + b"\r\nx", "message/rfc822")
