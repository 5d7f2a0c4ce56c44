from __future__ import annotations

import pytest

from pipestream.errors import ModuleFailed
from pipestream.modules import samples
from pipestream.modules.module import ModuleContext
from pipestream.wire import PipeDoc

CONTEXT = ModuleContext("sample", "node", "stream")


def document(data: bytes | str, mime_type: str = "", document_type: str = "") -> PipeDoc:
    made = PipeDoc(doc_id="d")
    made.blob_bag.blob.data = data.encode() if isinstance(data, str) else data
    made.blob_bag.blob.mime_type = mime_type
    if document_type:
        made.search_metadata.document_type = document_type
    return made


@pytest.mark.parametrize(
    ("mime_type", "data", "expected"),
    [
        ("text/html", "x", "HTML"),
        ("application/json", "x", "JSON"),
        ("text/csv", "x", "CSV"),
        ("text/markdown", "x", "MARKDOWN"),
        ("message/rfc822", "x", "EMAIL"),
        ("text/plain", "{}", "TEXT"),
        ("", " <html>", "HTML"),
        ("application/octet-stream", '{"a": 1}', "JSON"),
        ("", "hello", "TEXT"),
    ],
)
def test_triage_tells_kinds_apart(mime_type, data, expected):
    assert samples.triage(document(data, mime_type), CONTEXT).search_metadata.document_type == expected


def test_triage_refuses_an_empty_document():
    with pytest.raises(ModuleFailed, match="empty"):
        samples.triage(document(" \n"), CONTEXT)


def test_triage_refuses_a_document_without_content():
    with pytest.raises(ModuleFailed, match="no inline blob"):
        samples.triage(PipeDoc(doc_id="d"), CONTEXT)


def test_a_document_that_was_parsed_elsewhere_keeps_its_text():
    parsed = PipeDoc(doc_id="d")
    parsed.search_metadata.body = "Already parsed.\nSecond line."

    result = samples.parse_text(samples.triage(parsed, CONTEXT), CONTEXT)

    assert result.search_metadata.document_type == "TEXT"
    assert result.search_metadata.body == "Already parsed.\nSecond line."


def test_html_gives_title_text_links_and_language_without_scripts():
    page = (
        "<html lang='de-AT'><head><title> A &amp; B </title><script>var x = '<p>no</p>'</script>"
        "<style>p{}</style></head><body><h1>Head</h1><p>One <b>two</b>\nthree</p><a href='/x'>link</a></body>"
    )

    found = samples.parse_markup(document(page, document_type="HTML"), CONTEXT).search_metadata

    assert (found.title, found.language) == ("A & B", "de")
    assert found.body == "Head\nOne two three\nlink"
    assert list(found.custom_fields["links"]) == ["/x"]


def test_html_without_text_fails():
    with pytest.raises(ModuleFailed, match="no text"):
        samples.parse_markup(document("<html><script>x</script></html>", document_type="HTML"), CONTEXT)


def test_markdown_gives_title_and_text_without_its_marks():
    text = "# The *title*\n\nSome **bold** [link](http://x) here.\n\n- item\n> quote\n"

    found = samples.parse_markup(document(text, document_type="MARKDOWN"), CONTEXT).search_metadata

    assert found.title == "The *title*"
    assert found.body == "The title\nSome bold link here.\nitem\nquote"


def test_csv_gives_columns_and_rows():
    text = '\ufeffname,remark\r\nvalve,"two\nlines, quoted"\r\npump,\r\n'

    found = samples.parse_data(document(text, document_type="CSV"), CONTEXT).search_metadata

    assert list(found.custom_fields["columns"]) == ["name", "remark"]
    assert found.custom_fields["rows"] == 2
    assert "two\nlines, quoted" in found.body


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1\n", "row 2 has 1 cells, the header 2"),
        ('a,b\n"1,2\n', "not CSV"),
        ("\n\n", "no header"),
    ],
)
def test_csv_that_is_not_a_table_fails(text, message):
    with pytest.raises(ModuleFailed, match=message):
        samples.parse_data(document(text, document_type="CSV"), CONTEXT)


def test_json_gives_title_keys_and_its_texts():
    text = '{"title": "T", "list": [{"x": "one"}, "two", 3], "empty": null}'

    found = samples.parse_data(document(text, document_type="JSON"), CONTEXT).search_metadata

    assert (found.title, found.body) == ("T", "T\none\ntwo")
    assert list(found.custom_fields["keys"]) == ["empty", "list", "title"]


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000])
def test_broken_json_fails(text):
    with pytest.raises(ModuleFailed, match="not JSON"):
        samples.parse_data(document(text, document_type="JSON"), CONTEXT)


def test_an_email_gives_subject_author_date_and_text():
    text = (
        "From: a@example.org\r\nTo: b@example.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
        "Date: Thu, 01 May 2025 10:00:00 +0200\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHallo  Welt\r\n"
    )

    found = samples.parse_text(document(text, document_type="EMAIL"), CONTEXT).search_metadata

    assert (found.title, found.author, found.body) == ("Grüße", "a@example.org", "Hallo Welt")
    assert found.creation_date.ToJsonString() == "2025-05-01T08:00:00Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no headers at all", "it has no From, Date, Subject"),
        ("From: a\r\nSubject: b\r\nDate: yesterday\r\n\r\nx", "can be read"),
        (
            (
                "From: a\r\nSubject: b\r\nDate: Thu, 01 May 2025 10:00:00 +0200\r\n"
                "Content-Type: text/plain; charset=no-such\r\n\r\nx"
            ),
            "can be read",
        ),
    ],
)
def test_a_broken_email_fails(text, message):
    with pytest.raises(ModuleFailed, match=message):
        samples.parse_text(document(text, document_type="EMAIL"), CONTEXT)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"caf\xe9", "not UTF-8: byte 0xe9 at position 3"), (b"a\0b", "a zero byte at position 1")],
)
@pytest.mark.parametrize("parse", [samples.parse_markup, samples.parse_data, samples.parse_text])
def test_bytes_that_are_not_text_fail_in_every_parser(parse, data, message):
    with pytest.raises(ModuleFailed, match=message):
        parse(document(data, document_type="TEXT"), CONTEXT)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The pump is not what it was", "en"),
        ("Die Pumpe ist nicht mehr, was sie war", "de"),
        ("La pompe n'est pas dans la halle", "fr"),
        ("La bomba no es la que era", "es"),
        ("12 34", "und"),
    ],
)
def test_enrich_guesses_the_language(text, language):
    parsed = PipeDoc(doc_id="d")
    parsed.search_metadata.body = text

    assert samples.enrich(parsed, CONTEXT).search_metadata.language == language


def test_enrich_counts_words_and_picks_frequent_ones():
    parsed = PipeDoc(doc_id="d")
    parsed.search_metadata.body = "The valve and the valve and the pump with gasket"

    found = samples.enrich(parsed, CONTEXT).search_metadata

    assert list(found.keywords.keyword) == ["valve", "gasket", "pump"]
    assert (found.metadata["word_count"], found.content_length) == ("10", 48)


def test_enrich_needs_a_parsed_document():
    with pytest.raises(ModuleFailed, match="parse it first"):
        samples.enrich(PipeDoc(doc_id="d"), CONTEXT)
