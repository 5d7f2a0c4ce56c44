"""The envelope, on both sides of a real socket."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.modules.envelope import Envelope, EnvelopeInvalid, Reason, Route, child_id, parse_envelope
from pipestream.modules.module import Answer, EnvelopePlace, HopStatus, ModuleContext
from pipestream.modules.resolve import resolve_module
from pipestream.modules.runtime.handler import Handler
from pipestream.modules.runtime.module import RuntimeModule
from pipestream.modules.runtime.serve import Server
from pipestream.telemetry.meter import _reason
from pipestream.wire import ErrorData, PipeDoc

PLACE = EnvelopePlace("e1-2", "e1", ("a", "b", "c"), 1)
CONTEXT = ModuleContext("g", "b", "s-1", timeout_s=30.0, protocol="envelope", envelope=PLACE, config={"depth": 2})
DOCUMENT = PipeDoc(doc_id="d")
STEP = "pipestream_testing.natives:step"


def frame(value: object) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack(">I", len(data)) + data


def read_frame(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        more = connection.recv(65_536)
        if not more:
            return data
        data += more
    return data[4:]


@contextmanager
def program(path: Path, answer):
    """A program of somebody else: reads one frame per connection, and writes the bytes that ``answer`` returns."""
    seen, ended = [], threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    seen.append(json.loads(read_frame(connection)))
                    made = answer(seen[-1])
                    if made is None:
                        ended.wait(60)
                    else:
                        connection.sendall(made)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)


def call(tmp_path, answer, context=CONTEXT, document=DOCUMENT):
    handler = answer if callable(answer) else lambda request: frame(answer)
    with program(tmp_path / "m.sock", handler) as seen:
        return resolve_module(f"unix:{tmp_path}/m.sock").process(document, context), seen


def item(payload, current=2, actors=("a", "b", "c")):
    return {"payload": payload, "route": {"actors": list(actors), "current": current}}


def test_a_program_is_sent_the_whole_envelope(tmp_path):
    _, (sent,) = call(tmp_path, [])

    assert sent == {
        "id": "e1-2",
        "parent_id": "e1",
        "route": {"actors": ["a", "b", "c"], "current": 1},
        "headers": {"graph_id": "g", "node_id": "b", "stream_id": "s-1", "hop": 1, "attempt": 1, "timeout_s": 30.0},
        "payload": {"doc_id": "d", "@config": {"depth": 2}},
    }


@pytest.mark.parametrize(
    ("items", "ids"),
    [
        ([item({"doc_id": "x"})], ["x"]),
        ([item({"doc_id": "x"}, current=1)], ["x"]),
        ([item({"doc_id": "x"}), item({"doc_id": "y"})], ["x", "y"]),
        ([item({"doc_id": "x"}, actors=("a", "b", "another"))], ["x"]),
        ([item(None)], []),
        ([], []),
    ],
)
def test_the_answer_is_an_array_of_documents(tmp_path, items, ids):
    documents, _ = call(tmp_path, items)

    assert [document.doc_id for document in documents] == ids


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"{", "parse_error"),
        ({"payload": {}}, "parse_error"),
        (["x"], "parse_error"),
        ([{"payload": {"doc_id": "x"}}], "validation_error"),
        ([item({"doc_id": "x"}, actors=("a", "z", "c"))], "route_mismatch"),
        ([item({"doc_id": "x"}, current=0)], "route_mismatch"),
        ([item({"doc_id": "x"}, current=3)], "route_mismatch"),
    ],
)
def test_an_answer_that_is_not_one_fails_with_its_reason(tmp_path, answer, reason):
    with pytest.raises(ModuleFailed) as caught:
        call(tmp_path, answer)

    assert caught.value.details["error"] == reason
    assert _reason(caught.value) == reason


def test_an_error_answer_has_message_type_and_trace(tmp_path):
    details = {"message": "page 3 is blank", "type": "ValueError", "traceback": "line 1"}

    with pytest.raises(ModuleFailed, match="processing_error: ValueError: page 3 is blank") as caught:
        call(tmp_path, [{"error": "processing_error", "details": details}])

    assert (caught.value.error_type, caught.value.trace) == ("ValueError", "line 1")
    assert _reason(caught.value) == "runtime_error"


@pytest.mark.parametrize(
    ("answer", "error"), [(b"", ModuleUnavailable), (b"\0\0", ModuleUnavailable), (b"\0\0\0\x09[]", ModuleUnavailable)]
)
def test_a_connection_that_breaks_is_a_transport_error(tmp_path, answer, error):
    with pytest.raises(error) as caught:
        call(tmp_path, lambda request: answer)

    assert _reason(caught.value) == "transport_error"


def test_a_program_that_is_silent_runs_out_of_time_and_is_reported_as_not_ours(tmp_path):
    with pytest.raises(ModuleTimeout, match="Pipestream did not start this program"):
        call(tmp_path, lambda request: None, replace(CONTEXT, timeout_s=0.2))


def test_a_length_beyond_the_limit_is_refused_before_it_is_read(tmp_path):
    with pytest.raises(ModuleFailed, match="and an envelope at most"):
        call(tmp_path, lambda request: b"\xff\xff\xff\xff")


def test_the_error_end_gets_the_reason_and_the_original(tmp_path):
    technical = {"type": "ValueError", "traceback": "line 1", "details": {"error": "processing_error"}}
    failed = ErrorData(
        error_message="unix:/x: broken", error_code="ModuleFailed", technical_details=json.dumps(technical)
    )

    _, (sent,) = call(tmp_path, [], replace(CONTEXT, stream_error=failed, config={}))

    assert sent["payload"] == {
        "error": "processing_error",
        "details": {"message": "unix:/x: broken", "type": "ValueError", "traceback": "line 1"},
        "original_payload": {"doc_id": "d"},
    }


@pytest.mark.parametrize(("index", "expected"), [(0, "e1"), (1, "e1-1"), (12, "e1-12")])
def test_the_first_document_of_a_fan_out_keeps_the_id(index, expected):
    assert child_id("e1", index) == expected


@pytest.mark.parametrize(
    ("data", "actor", "reason"),
    [
        (b"{", "", Reason.PARSE_ERROR),
        (b"[]", "", Reason.PARSE_ERROR),
        (b"{}", "", Reason.VALIDATION_ERROR),
        (b'{"id": "", "route": {"actors": ["a"], "current": 0}}', "", Reason.VALIDATION_ERROR),
        (b'{"id": "e", "route": {"actors": [], "current": 0}}', "", Reason.VALIDATION_ERROR),
        (b'{"id": "e", "route": {"actors": ["a"], "current": 2}}', "", Reason.VALIDATION_ERROR),
        (b'{"id": "e", "route": {"actors": ["a"], "current": true}}', "", Reason.VALIDATION_ERROR),
        (b'{"id": "e", "route": {"actors": ["a", "b"], "current": 1}}', "a", Reason.ROUTE_MISMATCH),
        (b'{"id": "e", "route": {"actors": ["a"], "current": 1}}', "a", Reason.ROUTE_MISMATCH),
    ],
)
def test_a_message_that_is_not_for_this_actor_is_refused(data, actor, reason):
    with pytest.raises(EnvelopeInvalid) as caught:
        parse_envelope(data, actor)

    assert caught.value.reason is reason


def test_an_envelope_survives_its_bytes():
    envelope = Envelope("e", Route(("a", "b"), 1), {"x": [1]}, "p", {"h": "v"})

    assert parse_envelope(json.dumps(envelope.to_json()).encode(), "b") == envelope


@contextmanager
def served(path: Path, function, actor: str = ""):
    """A function of ours behind a socket."""
    with Server(Handler(function, "tests:function", actor), path) as server:
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield
        server.stop()
        thread.join(60)
    assert not path.exists()
    assert not (path.parent / "runtime-ready").exists()


def ask(path: Path, request: bytes, *, framed: bool) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        connection.sendall(frame(request) if framed else request)
        if framed:
            return read_frame(connection)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_served_function_answers_in_the_protocol_that_it_is_asked_in(tmp_path):
    path = tmp_path / "f.sock"
    envelope = {"id": "e", "route": {"actors": ["a"], "current": 0}, "payload": {"n": 1}}
    with served(path, lambda payload: {"n": payload["n"] + 1}):
        assert (tmp_path / "runtime-ready").exists()
        assert json.loads(ask(path, b'{"n": 1}', framed=False)) == {"n": 2}
        assert json.loads(ask(path, json.dumps(envelope).encode(), framed=True)) == [
            {"payload": {"n": 2}, "route": {"actors": ["a"], "current": 1}}
        ]


def test_a_served_function_may_return_several_values_or_none(tmp_path):
    path = tmp_path / "f.sock"
    envelope = json.dumps({"id": "e", "route": {"actors": ["a"], "current": 0}, "payload": 3}).encode()
    with served(path, lambda payload: list(range(payload)) or None):
        assert json.loads(ask(path, b"3", framed=False)) == [0, 1, 2]
        assert json.loads(ask(path, b"0", framed=False)) == []
        assert [each["payload"] for each in json.loads(ask(path, envelope, framed=True))] == [0, 1, 2]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"route": {"actors": ["b"], "current": 0}, "payload": 1}, "validation_error"),
        ({"id": "e", "route": {"actors": ["a", "b"], "current": 0}, "payload": 1}, "route_mismatch"),
        (b"no json", "parse_error"),
        ({"id": "e", "route": {"actors": ["b"], "current": 0}, "payload": 0}, "processing_error"),
    ],
)
def test_a_served_function_says_why_it_cannot_answer(tmp_path, request_, error):
    data = request_ if isinstance(request_, bytes) else json.dumps(request_).encode()
    with served(tmp_path / "f.sock", lambda payload: 1 / payload, actor="b"):
        (answer,) = json.loads(ask(tmp_path / "f.sock", data, framed=True))

    assert answer["error"] == error
    assert answer["details"]["message"]
    assert ("ZeroDivisionError" in answer["details"].get("traceback", "")) is (error == "processing_error")


def test_a_client_that_sends_nothing_or_half_a_message_does_not_stop_the_server(tmp_path):
    path = tmp_path / "f.sock"
    with served(path, lambda payload: payload):
        for start in (b"", b"\0\0", b"\0\0\0\x09{"):
            with socket.socket(socket.AF_UNIX) as broken:
                broken.connect(str(path))
                broken.sendall(start)
        assert json.loads(ask(path, b'"still here"', framed=False)) == "still here"


def test_an_owned_runtime_speaks_the_envelope_too():
    module = RuntimeModule(STEP, processes=1)
    document = PipeDoc(doc_id="d")
    document.search_metadata.title = "part"
    try:
        (made,) = module.process(DOCUMENT, CONTEXT)
        partial = module.process(document, CONTEXT)
        document.search_metadata.title = "many"
        several = module.process(document, CONTEXT)
    finally:
        module.close()

    assert made.search_metadata.metadata["context"].startswith("s-1 1")
    assert isinstance(partial, Answer)
    assert (partial.status, partial.problems) == (HopStatus.PARTIAL, ["page 3 is blank"])
    assert len(several) == 3


def test_the_command_serves_any_function_until_it_is_stopped(tmp_path):
    path = tmp_path / "f.sock"
    command = [sys.executable, "-m", "pipestream.cli.main", "runtime", "serve", "pipestream_testing.natives:shout"]
    with subprocess.Popen([*command, "--socket", str(path)], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "runtime-ready").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        (answer,) = resolve_module(f"unix:{path}").process(PipeDoc(doc_id="d"), ModuleContext("g", "n", "s"))
        process.terminate()
        assert process.wait(60) == 0

    assert answer.doc_id == "D"
    assert not path.exists()


def test_two_runtimes_do_not_take_each_others_socket(tmp_path):
    path = tmp_path / "f.sock"
    command = [sys.executable, "-m", "pipestream.cli.main", "runtime", "serve", "pipestream_testing.natives:shout"]
    with served(path, lambda payload: payload):
        second = subprocess.run(
            [*command, "--socket", str(path)], capture_output=True, text=True, check=False, timeout=60
        )
        assert json.loads(ask(path, b"1", framed=False)) == 1

    assert second.returncode == 2
    assert "another process listens there" in second.stderr


def test_a_socket_that_a_dead_runtime_left_is_replaced(tmp_path):
    path = tmp_path / "f.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    with served(path, lambda payload: payload):
        assert json.loads(ask(path, b"1", framed=False)) == 1


@given(st.binary(max_size=200) | st.from_regex(r'\{"id": "e", "route": .{0,60}\}', fullmatch=True).map(str.encode))
def test_whatever_comes_in_the_server_answers_with_json(request_):
    handler = Handler(lambda document, context: document, "tests:function")

    payload = json.loads(handler.answer_payload(request_))
    items = json.loads(handler.answer_envelope(request_))

    assert isinstance(payload, (dict, list))
    assert isinstance(items, list)
