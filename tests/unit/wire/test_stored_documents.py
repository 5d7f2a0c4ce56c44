from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from pipestream.wire import PipeDoc, PipeStream

FILES = sorted((Path(__file__).resolve().parents[2] / "data" / "pipedocs").glob("*.pb"))


def test_there_are_eight_stored_documents():
    assert len(FILES) == 8


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_stored_document_survives_a_round_trip_byte_for_byte(file):
    data = file.read_bytes()
    document = PipeDoc.FromString(data)

    assert document.doc_id.startswith("test-doc-")
    assert document.SerializeToString() == data


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_stored_document_survives_the_journey_inside_a_stream(file):
    data = file.read_bytes()
    stream = PipeStream.FromString(PipeStream(document=PipeDoc.FromString(data)).SerializeToString())

    assert stream.document.SerializeToString() == data


def test_unknown_fields_at_every_depth_are_kept():
    # Field 18 of SearchMetadata and field 99 of PipeDoc are not in our .proto files.
    nested = b"\x92\x01\x04abcd"
    data = b"\x0a\x01d" + b"\x12" + bytes([len(nested)]) + nested + b"\x9a\x06\x02hi"
    document = PipeDoc.FromString(data)

    assert [field.field_number for field in UnknownFieldSet(document.search_metadata)] == [18]
    assert [field.field_number for field in UnknownFieldSet(document)] == [99]
    document.search_metadata.title = "changed by a module"
    copy = PipeDoc.FromString(document.SerializeToString())
    copy.search_metadata.ClearField("title")
    assert copy.SerializeToString() == data
