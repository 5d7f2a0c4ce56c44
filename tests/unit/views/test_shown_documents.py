from __future__ import annotations

import pytest

from pipestream.errors import RequestInvalid
from pipestream.views.documents import MOST_BYTES, show_document
from pipestream.views.trials import read_document
from pipestream.wire import PipeDoc


def test_long_texts_are_cut_and_blobs_left_out():
    document = PipeDoc(doc_id="a")
    document.search_metadata.body = "x" * 100_000
    document.blob_bag.blob.data = b"secret bytes"
    document.blob_bag.blob.filename = "a.pdf"

    shown = show_document(document, "key")

    assert shown.truncated
    assert len(shown.document["search_metadata"]["body"]) < 30_000
    assert shown.document["blob_bag"]["blob"] == {"filename": "a.pdf"}
    assert document.blob_bag.blob.data == b"secret bytes"


def test_a_small_document_is_shown_as_it_is():
    document = PipeDoc(doc_id="a")
    document.search_metadata.title = "<script>"

    shown = show_document(document, "key")

    assert not shown.truncated
    assert shown.document == {"doc_id": "a", "search_metadata": {"title": "<script>"}}


def test_a_huge_document_is_not_shown():
    document = PipeDoc(doc_id="a")
    document.search_metadata.body = "x" * (MOST_BYTES + 1)

    assert show_document(document, "key").document is None


@pytest.mark.parametrize("values", [{"no_such": 1}, {"doc_id": {"a": 1}}, {"search_metadata": {"title": ["a"]}}])
def test_what_is_not_a_document_is_refused(values):
    with pytest.raises(RequestInvalid, match="not a document"):
        read_document(values)
