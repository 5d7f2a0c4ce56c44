from __future__ import annotations

import pytest

from pipestream.documents.references import blob_key, key_of, key_of_blob, stream_key, upload_key
from pipestream.errors import IdInvalid, RecordInvalid
from pipestream.wire import Blob, DocumentReference, PipeStream, StreamMetadata

SHA = "0123456789abcdef" * 4


def stream(account: str = "acme", *, of: str = "", stream_id: str = "s-1", **reference: str) -> PipeStream:
    return PipeStream(
        stream_id=stream_id,
        metadata=StreamMetadata(account_id=of),
        document_ref=DocumentReference(doc_id="d", account_id=account, **reference),
    )


def test_a_nodes_output_is_stored_by_account_stream_and_node():
    assert stream_key("acme", "s-1", "parse") == "streams/acme/s-1/parse.pb"


def test_an_upload_is_stored_by_its_content():
    assert upload_key("acme", "files", "d.1", SHA) == f"documents/acme/files/d.1/{SHA}.pb"


@pytest.mark.parametrize(
    ("account", "stream_id", "node"),
    [
        ("..", "s", "n"),
        ("a/b", "s", "n"),
        ("", "s", "n"),
        ("acme", "../../x", "n"),
        ("acme", "", "n"),
        ("acme", ".hidden", "n"),
        ("acme", "s\n", "n"),
        ("acme", "\u017f", "n"),
        ("acme", "s", "N"),
        ("acme", "s", "a.b"),
        ("acme", "s", ".."),
        ("acme", "x" * 201, "n"),
    ],
)
def test_ids_that_would_leave_their_place_are_refused(account, stream_id, node):
    with pytest.raises(IdInvalid):
        stream_key(account, stream_id, node)


@pytest.mark.parametrize("checksum", ["", "abc", SHA.upper(), SHA + "0", "../" + SHA[3:]])
def test_an_upload_key_needs_a_real_checksum(checksum):
    with pytest.raises(IdInvalid, match="SHA-256"):
        upload_key("acme", "files", "d", checksum)


def test_a_reference_with_a_key_means_that_object():
    key = upload_key("acme", "files", "d", SHA)

    assert key_of(stream(object_key=key)) == key


def test_a_reference_without_a_key_means_the_output_of_its_node():
    assert key_of(stream(source_node_id="parse")) == "streams/acme/s-1/parse.pb"


def test_a_reference_without_an_account_is_of_the_streams_account():
    assert key_of(stream("", of="acme", source_node_id="parse")) == "streams/acme/s-1/parse.pb"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        pytest.param(PipeStream(stream_id="s"), "has no document_ref", id="no reference"),
        pytest.param(stream(), "neither object_key nor source_node_id", id="nothing to go by"),
        pytest.param(stream("", source_node_id="parse"), "account id ''", id="no account"),
        pytest.param(stream(stream_id="", source_node_id="parse"), "stream id ''", id="no stream id"),
        pytest.param(stream(of="other", source_node_id="parse"), "but the stream to 'other'", id="two accounts"),
        pytest.param(stream(object_key="../secrets"), "cannot be part of an object key", id="climbs"),
        pytest.param(stream(object_key="/etc/passwd"), "cannot be part of an object key", id="absolute"),
        pytest.param(stream(object_key="streams/other/s/n.pb"), "is not below streams/acme/", id="foreign account"),
        pytest.param(stream(object_key="streams/acme"), "is not below streams/acme/", id="too short"),
        pytest.param(
            stream(object_key="ledger/acme/x"), "streams/acme/, documents/acme/ or segments/acme/", id="foreign root"
        ),
        pytest.param(stream("", object_key="streams/acme/s/n.pb"), "account id ''", id="key without account"),
    ],
)
def test_a_reference_that_names_no_object_it_may_is_an_invalid_record(record, message):
    with pytest.raises(RecordInvalid, match=message):
        key_of(record)


BLOB = "blobs/acme/files/doc-1/" + "a" * 64


def stored_blob(object_key: str = BLOB, drive: str = "default") -> Blob:
    blob = Blob(blob_id="b-1")
    blob.storage_ref.object_key = object_key
    blob.storage_ref.drive_name = drive
    return blob


def test_a_blob_is_stored_below_its_document_by_its_content():
    assert blob_key("acme", "files", "doc-1", "a" * 64) == BLOB


@pytest.mark.parametrize("drive", ["", "default"])
def test_a_blobs_reference_means_that_object(drive):
    assert key_of_blob(stored_blob(drive=drive), "acme") == BLOB


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (Blob(blob_id="b-1", data=b"inline"), "has no storage_ref"),
        (stored_blob(drive="other"), "only 'default'"),
        (stored_blob("blobs/other/files/doc-1/" + "a" * 64), "not below blobs/acme/"),
        (stored_blob("documents/acme/files/doc-1/x.pb"), "not below blobs/acme/"),
        (stored_blob("blobs/acme/../other"), "cannot be part of an object key"),
        (stored_blob(""), "cannot be part of an object key"),
    ],
)
def test_a_blobs_reference_that_names_no_object_it_may_is_an_invalid_record(blob, message):
    with pytest.raises(RecordInvalid, match=message):
        key_of_blob(blob, "acme")
