"""``PipeDocService`` against a Repository in a process of its own, by a client that knows only the wire's numbers."""

from __future__ import annotations

import random

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pipestream.documents.segments import build_segment
from pipestream.objects.store import open_store
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.repository_process import RepositoryProcess, apply_graph
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

SERVICE = "/ai.pipestream.repository.pipedoc.v1.PipeDocService/"
Field = descriptor_pb2.FieldDescriptorProto
KINDS = {
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
    "bool": Field.TYPE_BOOL,
    "int64": Field.TYPE_INT64,
    "int32": Field.TYPE_INT32,
}
# Names are free: only numbers and types are on the wire.
MESSAGES = {
    "Search": {"title": (1, "string"), "kind": (4, "string")},
    "Place": {"drive": (1, "string"), "key": (2, "string")},
    "Blob": {"id": (1, "string"), "data": (3, "bytes"), "place": (4, "Place"), "size": (8, "int64")},
    "Bag": {"blob": (1, "Blob")},
    "Owner": {"account": (1, "string"), "source": (2, "string"), "connector": (3, "string")},
    "Doc": {"id": (1, "string"), "search": (2, "Search"), "bag": (3, "Bag"), "owner": (6, "Owner")},
    "Ref": {"id": (1, "string"), "node": (2, "string"), "account": (3, "string"), "key": (4, "string"),
            "offset": (5, "int64"), "length": (6, "int64")},
    "Save": {"doc": (1, "Doc"), "drive": (2, "string"), "connector": (3, "string"), "at": (5, "string")},
    "Saved": {"node": (1, "string"), "drive": (2, "string"), "key": (3, "string"), "size": (4, "int64"),
              "checksum": (5, "string"), "at_ms": (6, "int64")},
    "Get": {"node": (1, "string")},
    "Got": {"doc": (1, "Doc"), "node": (2, "string"), "drive": (3, "string"), "size": (4, "int64")},
    "GetRef": {"ref": (1, "Ref")},
    "List": {"drive": (1, "string"), "connector": (2, "string"), "limit": (3, "int32"), "token": (4, "string")},
    "Listed": {"docs": (1, "*Meta"), "token": (2, "string"), "total": (3, "int32")},
    "Meta": {"node": (1, "string"), "id": (2, "string"), "connector": (4, "string"), "size": (5, "int64"),
             "title": (8, "string"), "kind": (9, "string")},
    "Logical": {"id": (1, "string"), "account": (2, "string"), "source": (3, "string")},
    "Delete": {"logical": (1, "Logical"), "purge": (10, "bool"), "quiet": (11, "bool")},
    "Deleted": {"outcome": (1, "int32"), "count": (2, "int32"), "nodes": (3, "*Get"), "why": (4, "string")},
    "GetBlob": {"place": (1, "Place")},
    "GotBlob": {"data": (1, "bytes"), "size": (2, "int64")},
}  # fmt: skip


@pytest.fixture(scope="module")
def wire():
    """The messages above, built at run time."""
    file = descriptor_pb2.FileDescriptorProto(name="numbers.proto", package="numbers", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = Field.LABEL_REPEATED if kind.startswith("*") else Field.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in KINDS:
                added.type = KINDS[kind]
            else:
                added.type, added.type_name = Field.TYPE_MESSAGE, f".numbers.{kind.lstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"numbers.{name}")) for name in MESSAGES}


@pytest.fixture(scope="module")
def served(shared_pipeline):
    settings = shared_pipeline.settings.model_copy(update={"repository_max_inline_bytes": 100})
    small = Pipeline(settings, shared_pipeline.graph_file)
    apply_graph(small)
    return small


@pytest.fixture(scope="module")
def source(served):
    return served.graph.datasources[0].datasource_id


@pytest.fixture(scope="module")
def call(served, tmp_path_factory, wire):
    """Call a method of a running Repository with a message of the table above."""
    folder = tmp_path_factory.mktemp("server")
    with RepositoryProcess(served, folder) as process, grpc.insecure_channel(process.grpc) as channel:

        def call(method, request, answer=None):
            read = wire[answer].FromString if answer else None
            stub = channel.unary_unary(SERVICE + method, response_deserializer=read)
            data = request if isinstance(request, bytes) else request.SerializeToString()
            return stub(data, timeout=120)

        call.process = process
        yield call


def status_of(call, *arguments: object):
    with pytest.raises(grpc.RpcError) as raised:
        call(*arguments)
    return raised.value.code()


def test_a_client_made_of_numbers_alone_saves_gets_lists_and_deletes(call, served, wire, source):
    account = served.graph.datasources[0].account_id
    big = b"B" * 200
    doc = {"id": "doc-1", "search": {"title": "One", "kind": "note"}, "owner": {"source": source}}

    saved = call(
        "SavePipeDoc", wire["Save"](doc={**doc, "bag": {"blob": {"id": "b", "data": big}}}, connector="c"), "Saved"
    )
    again = call(
        "SavePipeDoc", wire["Save"](doc={**doc, "bag": {"blob": {"id": "b", "data": big}}}, connector="c"), "Saved"
    )
    other = call("SavePipeDoc", wire["Save"](doc={"id": "doc-2", "owner": {"source": source}}), "Saved")
    kept = call("SavePipeDoc", wire["Save"](doc=doc, at="second"), "Saved")
    got = call("GetPipeDoc", wire["Get"](node=saved.node), "Got")
    by_place = {"id": "doc-1", "node": source, "account": account}
    by_reference = call("GetPipeDocByReference", wire["GetRef"](ref=by_place), "Got")
    by_key = call("GetPipeDocByReference", wire["GetRef"](ref={**by_place, "key": saved.key}), "Got")
    blob = call("GetBlob", wire["GetBlob"](place=got.doc.bag.blob.place), "GotBlob")
    first = call("ListPipeDocs", wire["List"](limit=2), "Listed")
    rest = call("ListPipeDocs", wire["List"](limit=2, token=first.token), "Listed")
    of_connector = call("ListPipeDocs", wire["List"](connector="c"), "Listed")

    assert saved.node == f"{account}/{source}/doc-1"
    assert (saved.key, saved.checksum) == (again.key, again.checksum)
    assert (saved.drive, saved.at_ms > 0, saved.size) == ("default", True, got.size)
    assert got.doc.search.title == by_reference.doc.search.title == by_key.doc.search.title == "One"
    assert (got.doc.owner.account, got.doc.bag.blob.data, blob.data, blob.size) == (account, b"", big, 200)
    assert [each.node for each in (*first.docs, *rest.docs)] == sorted([saved.node, other.node, kept.node])
    assert (first.total, rest.token) == (3, "")
    assert [(each.id, each.title, each.kind) for each in of_connector.docs] == [("doc-1", "One", "note")]
    # Uploads are published once; what is only kept at a node is not published.
    wait_until(lambda: len(served.read(f"intake.{source}")) >= 2)
    assert sorted(each.doc_id for each in served.read(f"intake.{source}")) == ["doc-1", "doc-2"]

    logical = {"id": "doc-1", "account": account, "source": source}
    deleted = call("DeletePipeDoc", wire["Delete"](logical=logical, purge=True), "Deleted")
    twice = call("DeletePipeDoc", wire["Delete"](logical=logical, purge=True), "Deleted")

    assert (deleted.outcome, deleted.count, [each.node for each in deleted.nodes]) == (1, 1, [saved.node])
    assert (twice.outcome, twice.count) == (2, 0)
    assert status_of(call, "GetPipeDoc", wire["Get"](node=saved.node), "Got") is grpc.StatusCode.NOT_FOUND
    gone = wire["GetBlob"](place=got.doc.bag.blob.place)
    assert status_of(call, "GetBlob", gone, "GotBlob") is grpc.StatusCode.NOT_FOUND


def test_bad_requests_have_a_status_that_says_what_is_wrong(call, served, wire, source):
    doc = {"id": "d", "owner": {"source": source}}
    for method, request, code in (
        ("SavePipeDoc", wire["Save"](), "INVALID_ARGUMENT"),
        ("SavePipeDoc", wire["Save"](doc={"id": "d"}), "NOT_FOUND"),
        ("SavePipeDoc", wire["Save"](doc={"id": "../d", "owner": {"source": source}}), "INVALID_ARGUMENT"),
        ("SavePipeDoc", wire["Save"](doc={"id": "d", "owner": {"source": source, "account": "x"}}), "INVALID_ARGUMENT"),
        ("SavePipeDoc", wire["Save"](doc=doc, drive="other"), "NOT_FOUND"),
        ("SavePipeDoc", wire["Save"](doc=doc, at=source), "INVALID_ARGUMENT"),
        ("GetPipeDoc", wire["Get"](node="x"), "INVALID_ARGUMENT"),
        ("GetPipeDoc", wire["Get"](node=f"acme/{source}/none"), "NOT_FOUND"),
        ("GetPipeDocByReference", wire["GetRef"](), "INVALID_ARGUMENT"),
        (
            "GetPipeDocByReference",
            wire["GetRef"](ref={"account": "a", "key": "documents/b/c/d/e.pb"}),
            "INVALID_ARGUMENT",
        ),
        ("ListPipeDocs", wire["List"](token="?"), "INVALID_ARGUMENT"),
        ("ListPipeDocs", wire["List"](limit=-1), "INVALID_ARGUMENT"),
        ("DeletePipeDoc", wire["Delete"](), "INVALID_ARGUMENT"),
        ("GetBlob", wire["GetBlob"](place={"key": "documents/a/b/c/d.pb"}), "INVALID_ARGUMENT"),
        ("GetBlob", wire["GetBlob"](place={"key": f"blobs/acme/{source}/d/{'a' * 64}"}), "NOT_FOUND"),
    ):
        assert status_of(call, method, request).name == code, (method, request)


def test_fuzzed_requests_get_only_documented_statuses(call, wire, source):
    chance = random.Random(7)
    methods = ["SavePipeDoc", "GetPipeDoc", "GetPipeDocByReference", "DeletePipeDoc", "ListPipeDocs", "GetBlob"]
    good = [
        wire["Save"](doc={"id": "d", "owner": {"source": source}}).SerializeToString(),
        wire["GetRef"](ref={"id": "d", "node": source, "account": "acme"}).SerializeToString(),
        wire["List"](limit=3, token="YS9iL2M=").SerializeToString(),
    ]
    seen = set()
    for _ in range(300):
        data = bytearray(chance.choice(good) if chance.random() < 0.7 else chance.randbytes(chance.randrange(60)))
        for _ in range(chance.randrange(4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            call(chance.choice(methods), bytes(data))
            seen.add("OK")
        except grpc.RpcError as error:
            seen.add(error.code().name)

    assert seen <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "INTERNAL"} - {
        "INTERNAL"
    }
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= seen
    assert call.process.is_running()
    assert "unexpected error" not in call.process.log_file.read_text()


def test_a_document_in_a_segment_is_read_by_its_reference(call, served, wire):
    account = served.graph.datasources[0].account_id
    documents = [wire["Doc"](id=f"doc-{number}").SerializeToString() for number in range(3)]
    segment, key = build_segment(documents), f"segments/{account}/first/2026111723/by-reference"
    with open_store(served.settings.store_uri, served.settings) as store:
        store.put(key, segment.data)
    reference = {"account": account, "key": key, "offset": segment.offsets[1], "length": len(documents[1])}

    got = call("GetPipeDocByReference", wire["GetRef"](ref=reference), "Got")
    wrong = wire["GetRef"](ref={**reference, "offset": segment.offsets[1] + 1})

    assert (got.doc.id, got.size) == ("doc-1", len(documents[1]))
    assert status_of(call, "GetPipeDocByReference", wrong) is grpc.StatusCode.NOT_FOUND
