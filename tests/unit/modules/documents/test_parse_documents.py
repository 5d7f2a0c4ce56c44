"""Each kind of document, through the one parser that knows them all."""

from __future__ import annotations

import io

import docx
import pytest

from pipestream.errors import ModuleFailed
from pipestream.modules.documents.kinds import identify
from pipestream.modules.documents.parse import parse
from pipestream.modules.module import HopStatus, ModuleContext
from pipestream.samples.files import excel_file, pdf_file, word_file
from pipestream.wire import PipeDoc
from pipestream_testing.files import blob_document, changed_zip, encrypted_office_file, ods_cell, ods_file, ods_row


def context(**config: object) -> ModuleContext:
    return ModuleContext("sample", "node", "stream", config=config)


def parsed(data: bytes | str, mime_type: str = "", **config: object):
    answer = parse(blob_document(data, mime_type), context(**config))
    assert answer.status is HopStatus.SUCCESS, answer.problems
    return answer.documents[0].search_metadata


@pytest.mark.parametrize(
    ("mime_type", "data", "expected"),
    [
        ("text/html", b"x", "HTML"),
        ("text/html; charset=utf-8", b"x", "HTML"),
        ("application/json", b"x", "JSON"),
        ("text/csv", b"x", "CSV"),
        ("text/markdown", b"x", "MARKDOWN"),
        ("message/rfc822", b"x", "EMAIL"),
        ("text/plain", b"{}", "TEXT"),
        ("", b" <html>", "HTML"),
        ("application/octet-stream", b'{"a": 1}', "JSON"),
        ("", b"hello", "TEXT"),
        ("", pdf_file("t", "a", ["x"]), "PDF"),
        ("application/zip", word_file("t", "a", ["x"]), "WORD"),
        ("", excel_file("t", "a", {"S": [["x"]]}), "TABLE"),
        ("", ods_file(ods_row(ods_cell("x"))), "TABLE"),
    ],
)
def test_the_kind_is_found_by_media_type_and_else_by_content(mime_type, data, expected):
    assert identify(blob_document(data, mime_type), context()).search_metadata.document_type == expected


def test_a_kind_that_nobody_can_read_is_refused_with_those_that_can():
    with pytest.raises(ModuleFailed, match="files of type image/png cannot be read; kinds that can: CSV, EMAIL"):
        identify(blob_document(b"\x89PNG\r\n\x1a\n\0\0\0", "image/png"), context())


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (PipeDoc(doc_id="d"), "no blob"),
        (blob_document(" \n"), "empty"),
    ],
)
def test_a_document_without_content_is_refused(document, message):
    for module in (identify, parse):
        with pytest.raises(ModuleFailed, match=message):
            module(document, context())


def test_a_blob_that_was_not_fetched_is_named():
    document = PipeDoc(doc_id="d")
    document.blob_bag.blob.blob_id = "b1"
    document.blob_bag.blob.storage_ref.object_key = "k"

    with pytest.raises(ModuleFailed, match="blob 'b1' is stored elsewhere"):
        parse(document, context())


def test_a_document_that_was_parsed_elsewhere_keeps_its_text():
    document = PipeDoc(doc_id="d")
    document.search_metadata.body = "Already parsed.\nSecond line."

    (result,) = parse(document, context()).documents

    assert result.search_metadata.document_type == "TEXT"
    assert result.search_metadata.body == "Already parsed.\nSecond line."


def test_all_files_of_a_document_are_read_and_the_first_one_names_it():
    document = PipeDoc(doc_id="d")
    for data, kind in ((b"# First\n\none", "text/markdown"), (b"<title>Second</title><p>two", "text/html")):
        document.blob_bag.blobs.blob.add(data=data, mime_type=kind)

    (result,) = parse(document, context()).documents

    assert (result.search_metadata.title, result.search_metadata.body) == ("First", "First\n\none\n\ntwo")
    assert result.search_metadata.document_type == "MARKDOWN"


def test_a_pdf_gives_text_of_all_pages_and_its_metadata():
    found = parsed(pdf_file("Report from Malmö", "Ann (B) Lee", ["Grüße. " * 1_000, "The end."]))

    assert (found.title, found.author) == ("Report from Malmö", "Ann (B) Lee")
    assert found.creation_date.ToJsonString() == "2025-05-12T06:00:00Z"
    assert found.custom_fields["pages"] == 2
    assert found.body.startswith("Report from Malmö\nGrüße. Grüße.")
    assert found.body.endswith("The end.")


def test_a_word_file_gives_text_tables_and_its_metadata():
    written = docx.Document()
    written.core_properties.title, written.core_properties.author = "Orders", "Ann"
    written.core_properties.keywords = "pumps; valves"
    written.add_heading("Orders of May", 1)
    table = written.add_table(rows=2, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text, table.cell(1, 0).text = "order", "pieces", "A-1\nlate"
    table.cell(1, 1).add_table(rows=1, cols=1).cell(0, 0).text = "inner"
    written.add_paragraph("After the table")
    data = io.BytesIO()
    written.save(data)

    found = parsed(data.getvalue())

    assert (found.title, found.author, list(found.keywords.keyword)) == ("Orders", "Ann", ["pumps", "valves"])
    lines = [line for line in found.body.splitlines() if line]
    assert lines == ["Orders of May", "order pieces", "A-1", "late", "inner", "After the table"]
    assert found.HasField("creation_date")


def test_an_excel_file_gives_the_cells_of_all_sheets():
    data = excel_file("Orders", "Ann", {"May": [["order", "pieces"], ["A-1", 12], ["A-2", 1.5]], "June": [["none"]]})

    found = parsed(data)

    assert (found.title, found.author) == ("Orders", "Ann")
    assert found.body.splitlines() == ["May", "order pieces", "A-1 12", "A-2 1.5", "", "June", "none"]
    assert [dict(sheet) for sheet in found.custom_fields["sheets"]] == [
        {"name": "May", "rows": 3, "columns": 2},
        {"name": "June", "rows": 1, "columns": 1},
    ]


def test_an_opendocument_table_gives_its_cells():
    # As LibreOffice writes it: the rest of the sheet is one empty row that is repeated.
    rows = ods_row(ods_cell("order"), ods_cell("pieces"), ods_cell(repeats=16_000))
    rest = ods_row(ods_cell(repeats=16_384), repeats=1_048_570)

    found = parsed(ods_file(rows + ods_row(ods_cell("A-1", repeats=2)) + rest, title="Orders"))

    assert (found.title, found.body) == ("Orders", "Orders\norder pieces\nA-1 A-1")


def test_csv_gives_columns_and_rows():
    found = parsed('\ufeffname,remark\r\nvalve,"two\nlines, quoted"\r\npump,\r\n', "text/csv")

    assert list(found.custom_fields["columns"]) == ["name", "remark"]
    assert found.custom_fields["rows"] == 2
    assert "two\nlines, quoted" in found.body


def test_tabs_separate_the_cells_of_a_tsv_file():
    assert list(parsed("a,b\tc\n1\t2\n", "text/tab-separated-values").custom_fields["columns"]) == ["a,b", "c"]


def test_html_gives_what_a_reader_sees_and_what_its_head_says():
    found = parsed(
        """<!doctype html><html lang="de-AT"><head><title> A
        page </title><meta name="Author" content="Ann"><meta name="keywords" content="pumps, valves,,pumps">
        <meta property="article:published_time" content="2025-05-12T08:00:00+02:00"><style>p {}</style></head>
        <body><p>One
        line</p>Bare<div>Two<br>Three <b>bold</b></div><script>never()</script><a href="/x">link</a>
        <p><a href="/x">again</a>""",
        "text/html",
    )

    assert (found.title, found.author, found.language) == ("A page", "Ann", "de")
    assert found.body.splitlines() == ["One line", "Bare", "Two", "Three bold", "link", "again"]
    assert list(found.keywords.keyword) == ["pumps", "valves"]
    assert found.creation_date.ToJsonString() == "2025-05-12T06:00:00Z"
    assert list(found.custom_fields["links"]) == ["/x"]


def test_html_is_read_in_the_encoding_that_it_declares():
    assert parsed("<meta charset='iso-8859-1'><p>Malmö".encode("latin-1"), "text/html").body == "Malmö"


def test_markdown_gives_headings_and_text_without_marks():
    found = parsed("# The *title* #\n\n> said [a link](x)\n\n## Part\n- `item`\n", "text/markdown")

    assert (found.title, list(found.custom_fields["headings"])) == ("The *title*", ["The *title*", "Part"])
    assert "said a link" in found.body


def test_json_gives_title_keys_and_its_texts():
    found = parsed('{"title": "T", "list": [{"x": "one"}, "two", 3], "empty": null}', "application/json")

    assert (found.title, found.body) == ("T", "T\none\ntwo")
    assert list(found.custom_fields["keys"]) == ["empty", "list", "title"]


def test_text_may_have_another_encoding_if_the_node_says_so():
    assert parsed("Malmö".encode("latin-1"), "text/plain", encoding="latin-1").body == "Malmö"


def test_control_characters_and_half_characters_do_not_reach_the_index():
    assert parsed("a\x07b\x85c  d\n\n\n\ne", "text/plain").body == "ab\nc d\n\ne"
    assert parsed(r'{"title": "half \ud800", "x": "y"}', "application/json").title == "half ?"


@pytest.mark.parametrize(
    ("data", "mime_type", "message"),
    [
        (pdf_file("t", "a", ["x"])[:200], "application/pdf", "the PDF is broken"),
        (b"hello", "application/pdf", "not a PDF"),
        (word_file("t", "a", ["x"])[:-100], "", "not a Word file: the zip file is broken"),
        (changed_zip(word_file("t", "a", ["x"]), word__document_dot_xml="<w:document"), "", "the Word file is broken"),
        (changed_zip(word_file("t", "a", ["x"]), _rels___dot_rels="<x/>"), "", "the Word file is broken"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "application/msword", "save it as .docx"),
        (changed_zip(excel_file("t", "a", {"S": [["x"]]}), xl__workbook_dot_xml="<"), "", "the workbook is broken"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "application/vnd.ms-excel", "the workbook is broken"),
        (b"caf\xe9", "text/plain", "not UTF-8: byte 0xe9 at position 3"),
        (b"caf\xe9", "text/csv", "not UTF-8: byte 0xe9 at position 3"),
        (b"caf\xe9", "text/html", "not UTF-8: byte 0xe9 at position 3"),
        (b"caf\xe9", "application/json", "not UTF-8: byte 0xe9 at position 3"),
        (b"a\0b", "text/markdown", "a zero byte at position 1"),
        (b"<meta charset=no-such><p>x", "text/html", "the encoding 'no-such' is not known"),
        (b"a,b\n1\n", "text/csv", "row 2 has 1 cells, the header 2"),
        (b'a,b\n"1,2\n', "text/csv", "not CSV"),
        (b"{", "application/json", "not JSON"),
        (b"[" * 100_000, "application/json", "nested too deeply"),
        (b"no headers at all", "message/rfc822", "not a mail: it has none of the headers"),
        (b"<html><script>x</script></html>", "text/html", "the document has no text"),
        (pdf_file("", "", [""]), "", "the document has no text"),
    ],
)
def test_a_broken_file_fails_with_the_reason(data, mime_type, message):
    with pytest.raises(ModuleFailed, match=message):
        parse(blob_document(data, mime_type), context())


@pytest.mark.parametrize("mime_type", ["application/msword", "application/vnd.ms-excel"])
def test_a_file_with_a_password_says_so(mime_type):
    with pytest.raises(ModuleFailed, match="is encrypted and needs a password"):
        parse(blob_document(encrypted_office_file(), mime_type), context())


def test_an_encrypted_pdf_says_so():
    # The standard handler with a key that no password matches.
    secret = "<< /Filter /Standard /V 1 /R 2 /P -4 /O (" + "o" * 32 + ") /U (" + "u" * 32 + ") >>"
    plain = pdf_file("t", "a", ["x"]).decode("latin-1")
    data = plain.replace("/Info 4 0 R", f"/Info 4 0 R /ID [<00> <00>] /Encrypt {secret}").encode("latin-1")

    with pytest.raises(ModuleFailed, match="the PDF is encrypted and needs a password"):
        parse(blob_document(data), context())


def test_a_document_without_text_may_continue_if_the_node_says_so():
    assert parsed(pdf_file("", "", [""]), on_empty="pass").body == ""


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"max_pages": "many"}, r"\$\.max_pages: 'many' is not of type 'integer'"),
        ({"max_pages": 0}, "less than the minimum"),
        ({"max_pags": 3}, "'max_pags' was unexpected"),
        ({"attachments": "all"}, "is not one of"),
    ],
)
def test_a_config_that_breaks_the_schema_is_refused(config, message):
    with pytest.raises(ModuleFailed, match=message):
        parse(blob_document("x"), context(**config))


def test_a_repeat_gives_the_same_bytes():
    data = word_file("Orders", "Ann", ["One"], [["a", "b"]])

    first, second = (parse(blob_document(data), context()).documents[0] for _ in range(2))

    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)
