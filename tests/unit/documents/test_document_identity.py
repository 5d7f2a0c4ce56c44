from __future__ import annotations

import hashlib

import pytest

from pipestream.documents.identity import prepare
from pipestream.errors import IdInvalid
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.graph.model import Connector, Datasource
from pipestream.wire import PipeDoc

FILES = Datasource("files", "acme", "entry")


def stored(document: PipeDoc, datasource: Datasource = FILES) -> PipeDoc:
    return PipeDoc.FromString(prepare(document, datasource).data)


def with_source(uri: str = "", path: str = "") -> PipeDoc:
    document = PipeDoc()
    if uri:
        document.search_metadata.source_uri = uri
    if path:
        document.search_metadata.source_path = path
    return document


def test_a_given_id_is_kept_and_noted_as_given():
    document = stored(PipeDoc(doc_id="mine"))

    assert document.doc_id == "mine"
    assert document.doc_id_derivation.method == wire.DOC_ID_DERIVATION_METHOD_CLIENT_PROVIDED


@pytest.mark.parametrize(
    ("document", "method"),
    [
        (with_source(uri="https://example.org/a"), wire.DOC_ID_DERIVATION_METHOD_SOURCE_URI),
        (with_source(path="a/b.txt"), wire.DOC_ID_DERIVATION_METHOD_SOURCE_PATH),
        (with_source(uri="https://example.org/a", path="a"), wire.DOC_ID_DERIVATION_METHOD_SOURCE_URI),
    ],
)
def test_an_id_that_is_not_given_is_derived_from_the_source(document, method):
    first, again = stored(document), stored(document)

    assert first.doc_id == again.doc_id != ""
    assert first.doc_id_derivation.method == method


def test_the_same_source_is_another_document_for_another_account_or_datasource():
    document = with_source(uri="https://example.org/a")
    sources = [FILES, Datasource("files", "other", "entry"), Datasource("mails", "acme", "entry")]

    assert len({stored(document, source).doc_id for source in sources}) == 3


def test_a_document_without_anything_to_name_it_by_is_refused():
    with pytest.raises(IdInvalid, match="set one of them"):
        prepare(PipeDoc(), FILES)


@pytest.mark.parametrize("doc_id", ["../x", "a/b", ".hidden", "x" * 201, "a b", "ü"])
def test_an_id_that_cannot_be_part_of_a_key_is_refused(doc_id):
    with pytest.raises(IdInvalid, match="document id"):
        prepare(PipeDoc(doc_id=doc_id), FILES)


def test_the_datasource_decides_whose_document_it_is():
    document = PipeDoc(doc_id="d")
    document.ownership.account_id = "somebody-else"
    document.ownership.acls.append("group:readers")
    source = Datasource("files", "acme", "entry", connector=Connector("folder"))

    ownership = stored(document, source).ownership

    assert (ownership.account_id, ownership.datasource_id) == ("acme", "files")
    assert (ownership.connector_id, list(ownership.acls)) == ("folder", ["group:readers"])


def test_the_callers_document_is_left_as_it_is():
    document = with_source(path="a")
    before = document.SerializeToString()

    prepare(document, FILES)

    assert document.SerializeToString() == before


def test_the_checksum_does_not_depend_on_the_order_of_map_entries():
    one, other = PipeDoc(doc_id="d"), PipeDoc(doc_id="d")
    for number in range(20):
        one.search_metadata.metadata[f"k{number}"] = "v"
        other.search_metadata.metadata[f"k{19 - number}"] = "v"

    prepared = prepare(one, FILES)

    assert prepared.checksum == prepare(other, FILES).checksum
    assert prepared.checksum == hashlib.sha256(prepared.data).hexdigest()


def test_unknown_fields_are_stored_too():
    document = PipeDoc.FromString(b"\x0a\x01d\x9a\x06\x02hi")

    assert b"\x9a\x06\x02hi" in prepare(document, FILES).data


def test_a_title_is_made_fit_for_the_catalogue():
    document = PipeDoc(doc_id="d")
    document.search_metadata.title = "a\0b" + "x" * 1_000

    title = prepare(document, FILES).title

    assert title.startswith("abx")
    assert len(title) == 500
