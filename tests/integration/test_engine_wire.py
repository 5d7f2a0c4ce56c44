"""A client that knows only the numbers of the wire format, without our generated code; and requests of any bytes."""

from __future__ import annotations

import struct

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipestream_testing.pipeline import read_topic

pytestmark = [
    pytest.mark.stack,
    # The engine runs in threads of this process, and uses `random` while a strategy draws.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"),
]
SERVICE = "/ai.pipestream.engine.v1.EngineV1Service/"
Field = descriptor_pb2.FieldDescriptorProto
KINDS = {"string": Field.TYPE_STRING, "bool": Field.TYPE_BOOL, "int64": Field.TYPE_INT64, "int32": Field.TYPE_INT32}

# Names are free: only numbers and types are on the wire.
MESSAGES = {
    "Search": {"title": (1, "string")},
    "Doc": {"id": (1, "string"), "search": (2, "Search")},
    "Meta": {"account": (10, "string"), "graph": (15, "string")},
    "Ref": {"id": (1, "string"), "node": (2, "string"), "account": (3, "string")},
    "Stream": {"id": (1, "string"), "meta": (2, "Meta"), "doc": (3, "Doc"), "at": (5, "string"), "ref": (9, "Ref")},
    "Handoff": {"stream": (1, "Stream"), "source": (2, "string"), "account": (3, "string"), "stored": (6, "bool")},
    "Taken": {"ok": (1, "bool"), "why": (2, "string"), "stream": (3, "string"), "entry": (4, "string")},
    "Many": {"id": (1, "string"), "number": (2, "int64"), "handoff": (3, "Handoff")},
    "ManyTaken": {"id": (1, "string"), "number": (2, "int64"), "status": (3, "int32"), "taken": (4, "Taken")},
    "Process": {"stream": (1, "Stream")},
    "Processed": {"ok": (1, "bool"), "why": (2, "string"), "doc": (6, "Doc"), "module": (8, "string")},
    "Ask": {"source": (1, "string")},
    "Instance": {"id": (1, "string"), "source": (2, "string"), "entry": (3, "string"), "graph": (5, "string")},
    "Found": {"ok": (1, "bool"), "instance": (2, "Instance"), "why": (3, "string")},
}


@pytest.fixture(scope="module")
def wire():
    """The messages above, built at run time."""
    file = descriptor_pb2.FileDescriptorProto(name="by_numbers.proto", package="by_numbers", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number, label=Field.LABEL_OPTIONAL)
            if kind in KINDS:
                added.type = KINDS[kind]
            else:
                added.type, added.type_name = Field.TYPE_MESSAGE, f".by_numbers.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"by_numbers.{name}")) for name in MESSAGES
    }


def graph_text(unique):
    return f"""
graph: {unique}
cluster: {unique}
datasources: [{{id: {unique}, account: acme, entry: first}}]
nodes:
  - {{id: first, type: connector}}
  - {{id: second, module: "python:pipestream_testing.steps:pass_on"}}
edges: [{{from: first, to: second}}]
"""


def unary(live, method, request, answer):
    call = live.channel.unary_unary(
        SERVICE + method, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
    )
    return call(request, timeout=120)


def test_a_client_made_of_numbers_alone_is_served(live, unique, wire):
    live.apply(graph_text(unique))
    doc = {"id": "doc-1", "search": {"title": "by hand"}}

    taken = unary(live, "IntakeHandoff", wire["Handoff"](stream={"doc": doc}, source=unique), wire["Taken"])
    at_node = {"id": "s-1", "meta": {"account": "acme", "graph": unique}, "doc": doc, "at": "second"}
    processed = unary(live, "ProcessNode", wire["Process"](stream=at_node), wire["Processed"])
    found = unary(live, "GetDatasourceInstance", wire["Ask"](source=unique), wire["Found"])
    stream = live.channel.stream_stream(
        SERVICE + "IntakeHandoffStream",
        request_serializer=wire["Many"].SerializeToString,
        response_deserializer=wire["ManyTaken"].FromString,
    )
    many = [wire["Many"](id=str(n), number=n, handoff={"stream": {"doc": doc}, "source": unique}) for n in range(3)]
    answers = sorted(stream(iter(many), timeout=120), key=lambda answer: answer.number)
    records = read_topic(live.settings, f"pipestream.{unique}.second")

    assert taken.ok
    assert taken.entry == "first"
    assert processed.ok
    assert processed.doc.search.title == "by hand"
    assert processed.module == "python:pipestream_testing.steps:pass_on"
    assert found.ok
    assert found.instance.entry == "first"
    assert [(answer.id, answer.status, answer.taken.ok) for answer in answers] == [
        ("0", 1, True),
        ("1", 1, True),
        ("2", 1, True),
    ]
    assert len(records) == 4
    assert wire["Stream"].FromString(records[0].record.value).ref.id == "doc-1"


def test_a_client_that_learns_the_service_by_reflection_is_served(live):
    database = ProtoReflectionDescriptorDatabase(live.channel)
    pool = descriptor_pool.DescriptorPool(database)
    service = pool.FindServiceByName("ai.pipestream.engine.v1.EngineV1Service")
    method = service.FindMethodByName("GetHealth")
    request, answer = (message_factory.GetMessageClass(each) for each in (method.input_type, method.output_type))

    health = unary(live, "GetHealth", request(), answer)

    assert {each.name for each in service.methods} >= {
        "IntakeHandoff",
        "ProcessNode",
        "ProcessStream",
        "RouteToCluster",
    }
    assert "pipestream.live.v1.HandoffService" in database.get_services()
    assert health.health == 1


# The codes that docs/engine.md lists. UNKNOWN is not one of them.
DOCUMENTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
}
METHODS = ("IntakeHandoff", "ProcessNode", "RouteToCluster", "GetDatasourceInstance", "UpdateTopicSubscriptions")
STREAMS = ("IntakeHandoffStream", "ProcessStream")
TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["", "..", "a/b", "x" * 300, "\0", "first", "acme", "\ud800"]))


@st.composite
def protobuf_bytes(draw, depth=0):
    """Bytes that are often a message of some kind: fields of any number, with values of any type, some cut off."""
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        number, kind = draw(st.integers(1, 20)), draw(st.sampled_from([0, 1, 2, 2, 2, 5]))
        if kind == 0:
            value = _varint(draw(st.integers(0, 2**64 - 1)))
        elif kind == 2:
            inner = draw(protobuf_bytes(depth + 1)) if depth < 4 and draw(st.booleans()) else None
            inner = draw(TEXTS).encode("utf-8", "surrogatepass") if inner is None else inner
            value = _varint(len(inner)) + inner
        else:
            value = struct.pack("<Q" if kind == 1 else "<I", draw(st.integers(0, 2**32 - 1)))
        parts.append(_varint(number << 3 | kind) + value)
    data = b"".join(parts)
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 9)) == 0 else data


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


FUZZED = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@FUZZED
@given(method=st.sampled_from(METHODS + STREAMS), data=protobuf_bytes(), key=st.sampled_from(["", "k", "x" * 2_000]))
def test_bytes_of_any_kind_get_only_documented_codes(live, method, data, key):
    metadata = [("pipestream-idempotency-key", key)] if key else []
    if method in STREAMS:
        code = code_of(
            lambda: list(
                live.channel.stream_stream(SERVICE + method)(iter([data, data]), timeout=120, metadata=metadata)
            )
        )
    else:
        code = code_of(lambda: live.channel.unary_unary(SERVICE + method)(data, timeout=120, metadata=metadata))

    assert code in DOCUMENTED


@FUZZED
@given(
    values=st.fixed_dictionaries(
        {"source": TEXTS, "account": TEXTS, "id": TEXTS, "at": TEXTS, "graph": TEXTS, "doc": TEXTS}
    )
)
def test_field_values_of_any_kind_get_only_documented_codes(live, wire, values):
    values = {name: value.encode("utf-8", "replace").decode() for name, value in values.items()}
    stream = {"id": values["id"], "at": values["at"], "doc": {"id": values["doc"]}}
    stream["meta"] = {"account": values["account"], "graph": values["graph"]}
    requests = {
        "IntakeHandoff": wire["Handoff"](stream=stream, source=values["source"], account=values["account"]),
        "ProcessNode": wire["Process"](stream=stream),
        "GetDatasourceInstance": wire["Ask"](source=values["source"]),
    }
    for method, request in requests.items():
        call = live.channel.unary_unary(SERVICE + method)
        assert code_of(lambda call=call, request=request: call(request.SerializeToString(), timeout=120)) in DOCUMENTED


def test_the_engine_lives_after_all_that(live, unique, wire):
    live.apply(graph_text(unique))
    request = wire["Handoff"](stream={"doc": {"id": "doc-1"}}, source=unique)

    assert unary(live, "IntakeHandoff", request, wire["Taken"]).ok
