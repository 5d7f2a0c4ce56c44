from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipestream.errors import ModuleFailed, ModuleUnavailable
from pipestream.modules.module import ModuleContext
from pipestream.modules.resolve import resolve_module
from pipestream.wire import PipeDoc
from pipestream_testing.modules import SocketModuleServer

FILES = sorted((Path(__file__).resolve().parents[2] / "data" / "pipedocs").glob("*.pb"))
INPUT = PipeDoc(doc_id="in")


def call(tmp_path, answer, document=INPUT, timeout_s=10.0, **context):
    handler = answer if callable(answer) else lambda request: answer
    with SocketModuleServer(tmp_path / "m.sock", handler) as server:
        values = ModuleContext("g", "n", "s", timeout_s=timeout_s, **context)
        return resolve_module(server.spec).process(document, values)


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (b'{"doc_id": "a"}', ["a"]),
        (b'[{"doc_id": "a"}, {"doc_id": "b"}]', ["a", "b"]),
        (b"[]", []),
        (b"null", []),
        (b'{"docId": "a"}', ["a"]),
    ],
)
def test_the_answer_is_one_several_or_no_documents(tmp_path, answer, ids):
    assert [document.doc_id for document in call(tmp_path, answer)] == ids


def test_the_module_is_sent_the_documents_own_json(tmp_path):
    document = PipeDoc(doc_id="in")
    document.search_metadata.source_path = "a/b"
    document.blob_bag.blob.data = b"\0\xff"
    seen = []

    def echo(request: bytes) -> bytes:
        seen.append(json.loads(request))
        return request

    (returned,) = call(tmp_path, echo, document)

    assert returned == document
    assert seen == [
        {
            "doc_id": "in",
            "search_metadata": {"source_path": "a/b"},
            "blob_bag": {"blob": {"data": "AP8="}},
        }
    ]


def test_the_module_learns_how_its_node_is_configured(tmp_path):
    seen = []

    def look(request: bytes) -> bytes:
        seen.append(json.loads(request))
        return b"null"

    call(tmp_path, look, config={"depth": 2, "tags": ["a"]}, config_params={"mode": "fast"})

    assert seen == [{"doc_id": "in", "@config": {"depth": 2, "tags": ["a"]}, "@config_params": {"mode": "fast"}}]


def test_an_answer_may_repeat_the_configuration(tmp_path):
    def twice(request: bytes) -> bytes:
        return b"[" + request + b"," + request + b"]"

    assert call(tmp_path, twice, config={"depth": 2}) == [INPUT, INPUT]


def test_fields_that_json_cannot_carry_are_put_back(tmp_path):
    nested = b"\x92\x01\x04abcd"
    data = b"\x0a\x01d" + b"\x12" + bytes([len(nested)]) + nested + b"\x9a\x06\x02hi"

    (returned,) = call(tmp_path, lambda request: request, PipeDoc.FromString(data))

    assert returned.SerializeToString() == data


def test_a_megabyte_goes_both_ways(tmp_path):
    document = PipeDoc(doc_id="big")
    document.blob_bag.blob.data = bytes(1_000_000)

    assert call(tmp_path, lambda request: request, document) == [document]


def test_an_error_answer_tells_code_type_and_message(tmp_path):
    answer = b'{"error": "processing_error", "message": "page 3 is blank", "type": "ValueError"}'

    with pytest.raises(ModuleFailed, match="processing_error: ValueError: page 3 is blank") as caught:
        call(tmp_path, answer)

    assert caught.value.error_type == "ValueError"
    assert caught.value.details == {"error": "processing_error"}


def test_an_error_answer_may_have_details_and_a_trace(tmp_path):
    details = {"message": "page 3 is blank", "type": "ValueError", "traceback": "line 1\nline 2", "page": 3}
    answer = json.dumps({"error": "processing_error", "details": details}).encode()

    with pytest.raises(ModuleFailed, match="processing_error: ValueError: page 3 is blank") as caught:
        call(tmp_path, answer)

    assert (caught.value.error_type, caught.value.trace) == ("ValueError", "line 1\nline 2")
    assert caught.value.details == {"error": "processing_error", "page": 3}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"{", "the answer is not JSON"),
        (b"\xff\xfe", "the answer is not JSON"),
        (b"42", "the answer has int"),
        (b'["a"]', "the answer has str"),
        (b'[{"doc_id": "a"}, null]', "the answer has NoneType"),
        (b'{"doc_id": 5}', "not a PipeDoc"),
        (b'{"no_such_field": 5}', "not a PipeDoc"),
    ],
)
def test_an_answer_that_is_not_a_document_is_a_failure(tmp_path, answer, message):
    with pytest.raises(ModuleFailed, match=message):
        call(tmp_path, answer)


def test_a_connection_closed_without_an_answer_is_worth_a_retry(tmp_path):
    with pytest.raises(ModuleUnavailable, match="without an answer"):
        call(tmp_path, b"")


def test_a_socket_that_is_not_there_is_worth_a_retry(tmp_path):
    with pytest.raises(ModuleUnavailable, match="No such file"):
        resolve_module(f"unix:{tmp_path}/none.sock").process(INPUT, ModuleContext("g", "n", "s"))


def test_a_module_that_hangs_runs_out_of_time(tmp_path):
    with pytest.raises(ModuleUnavailable, match=r"took longer than 0\.2 s"):
        call(tmp_path, lambda request: None, timeout_s=0.2)


def test_a_document_that_json_cannot_express_is_a_failure(tmp_path):
    document = PipeDoc(doc_id="in")
    document.structured_data.type_url = "type.googleapis.com/unknown.Type"

    with pytest.raises(ModuleFailed, match="cannot be written as JSON"):
        call(tmp_path, b"null", document)
