from __future__ import annotations

import pytest

from pipestream.documents.segments import build_segment
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import PipeDoc

SEGMENT = "segments/acme/parse/2026111723/2b0f6e5c-6f7a-4f0e-9a57-6f2c1d6a0c11"


@pytest.fixture
def store(tmp_path, monkeypatch):
    uri = (tmp_path / "objects").as_uri()
    monkeypatch.setenv("PIPESTREAM_STORE_URI", uri)
    with open_store(uri, Settings()) as opened:
        yield opened


def test_a_document_in_a_segment_is_shown_by_its_place(run, store):
    documents = [PipeDoc(doc_id=f"doc-{number}").SerializeToString() for number in range(3)]
    segment = build_segment(documents)
    store.put(SEGMENT, segment.data)

    shown = run("documents", "show", f"{SEGMENT}@{segment.offsets[1]}:{len(documents[1])}")
    wrong = run("documents", "show", f"{SEGMENT}@{segment.offsets[1] + 1}:{len(documents[1])}")

    assert shown.json()["document"]["doc_id"] == "doc-1"
    assert wrong.code != 0
    assert "no whole document at segments/" in wrong.err


def test_a_document_with_an_object_of_its_own_is_shown_by_its_key(run, store):
    store.put("streams/acme/s/n.pb", PipeDoc(doc_id="doc").SerializeToString())

    assert run("documents", "show", "streams/acme/s/n.pb").json()["document"]["doc_id"] == "doc"
    assert "there is no object" in run("documents", "show", "streams/acme/s/none.pb").err
