from __future__ import annotations

import pytest

from pipestream.retention.references import References
from pipestream.wire import DocumentReference, PipeStream


def references_of(*streams: PipeStream) -> References:
    found = References()
    for stream in streams:
        found.add(stream.SerializeToString())
    return found


def test_a_key_is_referenced():
    found = references_of(PipeStream(document_ref=DocumentReference(object_key="documents/acme/files/d/abc.pb")))

    assert "documents/acme/files/d/abc.pb" in found
    assert "documents/acme/files/d/other.pb" not in found


def test_a_reference_without_a_key_means_an_object_of_its_stream():
    found = references_of(PipeStream(stream_id="s-1", document_ref=DocumentReference(source_node_id="parse")))

    assert "streams/acme/s-1/parse.pb" in found
    assert "streams/acme/s-2/parse.pb" not in found


def test_a_record_with_its_document_inline_keeps_what_else_its_stream_has():
    assert "streams/acme/s-1/parse.pb" in references_of(PipeStream(stream_id="s-1"))


def test_the_name_of_a_stream_does_not_keep_an_upload():
    assert "documents/acme/s-1/d/abc.pb" not in references_of(PipeStream(stream_id="s-1"))


@pytest.mark.parametrize("value", [None, b"", b"\xff\xff not a message"])
def test_what_is_not_a_stream_refers_to_nothing_and_is_counted(value):
    found = References()

    found.add(value)

    assert found.records == 1
    assert "streams/acme//x.pb" not in found
