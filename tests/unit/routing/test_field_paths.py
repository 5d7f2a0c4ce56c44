from __future__ import annotations

from datetime import UTC, datetime

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pipestream.errors import MappingError
from pipestream.routing.field_paths import check_path, get_field, set_field
from pipestream.wire import PipeDoc


def sample() -> PipeDoc:
    document = PipeDoc(doc_id="d")
    metadata = document.search_metadata
    metadata.title = "title"
    metadata.content_length = 7
    metadata.keywords.keyword.extend(["a", "b"])
    metadata.tags.tag_data["legal"] = "yes"
    metadata.metadata["dc.title"] = "dotted"
    metadata.custom_fields.update({"x": {"y": 1.5}, "list": [1, {"z": "deep"}]})
    metadata.creation_date.FromSeconds(60)
    document.blob_bag.blobs.blob.add(blob_id="b0")
    document.parsed_metadata["tika"].parser_name = "tika"
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("doc_id", "d"),
        ("search_metadata.title", "title"),
        ("search_metadata.content_length", 7),
        ("search_metadata.keywords.keyword", ["a", "b"]),
        ("search_metadata.keywords.keyword.1", "b"),
        ("search_metadata.keywords.keyword.2", None),
        ("search_metadata.tags.tag_data.legal", "yes"),
        ("search_metadata.tags.tag_data.missing", None),
        ("search_metadata.tags.tag_data", {"legal": "yes"}),
        ("search_metadata.metadata.dc.title", "dotted"),
        ("search_metadata.custom_fields.x.y", 1.5),
        ("search_metadata.custom_fields.x", {"y": 1.5}),
        ("search_metadata.custom_fields.list.1.z", "deep"),
        ("search_metadata.custom_fields.list.9", None),
        ("search_metadata.custom_fields.x.y.z", None),
        ("search_metadata.creation_date", Timestamp(seconds=60)),
        ("search_metadata.author", None),
        ("blob_bag.blob.size_bytes", None),
        ("blob_bag.blobs.blob.0.blob_id", "b0"),
        ("blob_bag.blobs.blob.4.blob_id", None),
        ("parsed_metadata.tika.parser_name", "tika"),
        ("parsed_metadata.other.parser_name", None),
        ("ownership.account_id", None),
    ],
)
def test_reads_a_field_by_its_path(path, value):
    document = sample()

    assert check_path(path) is None
    assert get_field(document, path) == value
    assert document == sample()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("doc_id", "new"),
        ("search_metadata.title", "new"),
        ("search_metadata.author", "new"),
        ("search_metadata.content_length", 9),
        ("search_metadata.relevance_score", 0.5),
        ("search_metadata.keywords.keyword", ["x"]),
        ("search_metadata.keywords.keyword.0", "x"),
        ("search_metadata.keywords.keyword.2", "appended"),
        ("search_metadata.tags.tag_data.legal", "no"),
        ("search_metadata.tags.tag_data", {"only": "one"}),
        ("search_metadata.metadata.a.b.c", "dotted key"),
        ("search_metadata.custom_fields.new.deep", [1.0, "two", {"three": True}]),
        ("search_metadata.custom_fields.x.y", "replaced"),
        ("search_metadata.custom_fields", {"all": "new"}),
        ("blob_bag.blob.size_bytes", 10),
        ("blob_bag.blob.data", b"bytes"),
        ("blob_bag.blobs.blob.0.filename", "f"),
        ("blob_bag.blobs.blob.1.filename", "second"),
        ("parsed_metadata.other.parser_name", "p"),
        ("ownership.acls", ["a"]),
    ],
)
def test_what_is_written_is_read_back(path, value):
    document = sample()
    set_field(document, path, value)

    assert get_field(document, path) == value


def test_only_the_field_that_is_written_changes():
    document, expected = sample(), sample()
    expected.search_metadata.tags.tag_data["new"] = "x"
    set_field(document, "search_metadata.tags.tag_data.new", "x")

    assert document == expected


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "2026-01-02T03:04:05Z",
        "2026-01-02T05:04:05+02:00",
        datetime(2026, 1, 2, 3, 4, 5),
    ],
)
def test_a_time_may_be_given_as_text_or_datetime(value):
    document = PipeDoc()
    set_field(document, "search_metadata.creation_date", value)

    assert document.search_metadata.creation_date.ToJsonString() == "2026-01-02T03:04:05Z"


def test_an_enum_is_written_by_name_or_number():
    document = PipeDoc()
    set_field(document, "blob_bag.blob.checksum_type", "CHECKSUM_TYPE_MD5")
    assert get_field(document, "blob_bag.blob.checksum_type") == 1

    set_field(document, "blob_bag.blob.checksum_type", 3.0)
    assert get_field(document, "blob_bag.blob.checksum_type") == 3


@pytest.mark.parametrize(
    "path",
    [
        "search_metadata.title",
        "search_metadata.keywords.keyword",
        "search_metadata.keywords.keyword.0",
        "search_metadata.tags.tag_data.legal",
        "search_metadata.custom_fields.x.y",
        "search_metadata.custom_fields",
        "search_metadata",
        "parsed_metadata.tika",
        "blob_bag.blobs.blob.0",
    ],
)
def test_nothing_clears_what_is_there(path):
    document = sample()
    before = get_field(document, path)
    set_field(document, path, None)

    assert get_field(document, path) != before


@pytest.mark.parametrize(
    "path", ["search_metadata.author", "blob_bag.blob.filename", "search_metadata.custom_fields.a.b", "ownership.acls"]
)
def test_clearing_what_is_not_there_changes_nothing(path):
    document = sample()
    set_field(document, path, None)

    assert document == sample()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nope", "PipeDoc has no field nope; it has blob_bag, doc_id"),
        ("search_metadata.nope", "SearchMetadata has no field nope"),
        ("doc_id.x", "doc_id is text and has no fields inside"),
        ("search_metadata.content_length.x", "is a whole number and has no fields inside"),
        ("search_metadata.creation_date.seconds", "is a Timestamp and has no fields inside"),
        ("search_metadata.keywords.keyword.first", "keyword is a list; after it comes a number"),
        ("search_metadata..title", "is not a field path"),
        ("", "is not a field path"),
        (".", "is not a field path"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path, message):
    assert message in (check_path(path) or "")
    with pytest.raises(MappingError):
        get_field(sample(), path)
    with pytest.raises(MappingError):
        set_field(sample(), path, "x")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("search_metadata.title", 1, "title holds text, and the value is a whole number"),
        ("search_metadata.title", b"x", "title holds text, and the value is bytes"),
        ("search_metadata.content_length", "7", "content_length holds a whole number, and the value is text"),
        ("search_metadata.content_length", 1.5, "content_length holds a whole number"),
        ("search_metadata.content_length", True, "content_length holds a whole number, and the value is true or false"),
        ("search_metadata.content_length", 2**40, "out of range"),
        ("search_metadata.relevance_score", "x", "relevance_score holds a number"),
        ("search_metadata.keywords.keyword", "a", "keyword is a list, and the value is text"),
        ("search_metadata.keywords.keyword", [1], "keyword holds text"),
        ("search_metadata.keywords.keyword.5", "x", "the list has 2 elements"),
        ("search_metadata.tags.tag_data", ["x"], "tag_data is a map"),
        ("search_metadata.tags.tag_data.k", 1, "holds text"),
        ("search_metadata.tags", "x", "tags holds a Tags"),
        ("search_metadata.creation_date", "tomorrow", "search_metadata.creation_date: "),
        ("search_metadata.creation_date", 7, "creation_date holds a Timestamp"),
        ("search_metadata.custom_fields", "x", "custom_fields holds a Struct"),
        ("search_metadata.custom_fields.x.y.z", 1, "already a plain value"),
        ("search_metadata.custom_fields.b", b"x", "free-form fields hold"),
        ("blob_bag.blob.checksum_type", "MD9", "'MD9' is not one of CHECKSUM_TYPE_UNSPECIFIED"),
        ("blob_bag.blob.checksum_type", 99, "99 is not a number of ChecksumType"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_changes_nothing_it_names(path, value, message):
    document = sample()
    before = get_field(document, path)
    with pytest.raises(MappingError) as caught:
        set_field(document, path, value)

    assert message in str(caught.value)
    assert get_field(document, path) == before
