"""Which conditions run in Python. What they give is compared with both CEL engines in test_condition_engines_agree."""

from __future__ import annotations

import pytest

from pipestream.routing.engine import VARIABLES
from pipestream.routing.quick import quick_program
from pipestream.routing.syntax import parse
from pipestream.wire import PipeDoc, PipeStream

SIMPLE = [
    'doc.search_metadata.document_type == "PDF"',
    '"PDF" == document.search_metadata.document_type',
    "doc.blob_bag.blob.size_bytes > 10000000",
    "10000000 <= doc.blob_bag.blob.size_bytes",
    'doc.search_metadata.source_uri.startsWith("s3://")',
    '"legal" in doc.search_metadata.tags.tag_data',
    '"b" in stream.processing_path',
    "stream.metadata.is_test",
    "has(doc.search_metadata.title) && !has(doc.blob_bag)",
    'stream.hop_count < 3 || doc.doc_id != "x"',
    "true",
]
FOR_AN_ENGINE = [
    'doc.search_metadata.tags.tag_data["x"] == "y"',  # fails where the key is not there
    'doc.search_metadata.custom_fields.x == "y"',
    "doc.search_metadata.content_length / 0 == 1",
    'doc.search_metadata.title.matches("^a")',
    "doc.blob_bag.blobs.blob.exists(b, b.size_bytes > 1)",
    'stream.metadata.created_at > timestamp("2020-01-01T00:00:00Z")',
    "doc.search_metadata.title == doc.doc_id",
    'doc.doc_id == "x" && doc.search_metadata.title.matches("^a")',
]


@pytest.mark.parametrize("text", SIMPLE)
def test_a_simple_condition_runs_in_python(text):
    assert quick_program(parse(text), VARIABLES) is not None


@pytest.mark.parametrize("text", FOR_AN_ENGINE)
def test_what_may_fail_or_needs_more_than_a_field_is_left_to_the_engine(text):
    assert quick_program(parse(text), VARIABLES) is None


def test_reading_fields_that_are_not_set_changes_nothing():
    stream, document = PipeStream(), PipeDoc()

    for text in SIMPLE:
        quick_program(parse(text), VARIABLES)(stream, document)

    assert (stream.ByteSize(), document.ByteSize()) == (0, 0)
