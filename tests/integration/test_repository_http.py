"""Uploads and webhooks over HTTP, against a Repository in a process of its own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random

import httpx
import psutil
import pytest
from pydantic import SecretStr

from pipestream.documents.references import key_of, key_of_blob
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.repository_process import RepositoryProcess, apply_graph
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

LIMIT = 300_000
INLINE = 10_000
SECRET = "a secret of the sender"
DOCUMENTED = {200, 201, 207, 400, 401, 404, 405, 408, 413, 415, 422, 503}


@pytest.fixture(scope="module")
def served(shared_pipeline):
    """A pipeline whose graph is applied, with small limits and a secret for webhooks."""
    changes = {
        "repository_max_upload_bytes": LIMIT,
        "repository_max_inline_bytes": INLINE,
        "webhook_secrets": {shared_pipeline.graph.datasources[0].datasource_id: SecretStr(SECRET)},
    }
    changed = Pipeline(shared_pipeline.settings.model_copy(update=changes), shared_pipeline.graph_file)
    apply_graph(changed)
    return changed


@pytest.fixture(scope="module")
def source(served):
    return served.graph.datasources[0].datasource_id


@pytest.fixture(scope="module")
def server(served, tmp_path_factory):
    with RepositoryProcess(served, tmp_path_factory.mktemp("server")) as process:
        yield process


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.http, timeout=120) as opened:
        yield opened


@pytest.fixture
def stored(served, source):
    """Wait until these documents are published, so often in all; return the last version of each."""

    def stored(doc_ids, times):
        def published():
            return [each for each in served.read(f"intake.{source}") if each.doc_id in doc_ids]

        wait_until(lambda: len(published()) >= times)
        found = published()
        assert len(found) == times
        with open_store(served.settings.store_uri, served.settings) as store:
            return {each.doc_id: PipeDoc.FromString(store.get(key_of(each.stream))) for each in found}

    return stored


def test_a_file_is_taken_in_once_and_published(client, stored, source):
    first = client.post(f"/uploads/{source}", content=b"Hello", headers={"X-Filename": "notes/hello.txt"})
    again = client.post(f"/uploads/{source}", content=b"Hello", headers={"X-Filename": "notes/hello.txt"})
    changed = client.post(f"/uploads/{source}", content=b"Hello again", headers={"X-Filename": "notes/hello.txt"})
    named = client.post(f"/uploads/{source}?doc_id=doc-1&title=T", content=b"%PDF-1.7", headers={"X-Title": "A title"})
    unnamed = client.post(f"/uploads/{source}", content=b"by content")

    answers = [first, again, changed, named, unnamed]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 201, 201]
    assert [answer.json()["outcome"] for answer in answers] == ["new", "unchanged", "changed", "new", "new"]
    documents = stored({answer.json()["doc_id"] for answer in answers}, 4)
    hello = documents[first.json()["doc_id"]]
    assert (hello.blob_bag.blob.data, hello.blob_bag.blob.mime_type) == (b"Hello again", "text/plain")
    assert (hello.search_metadata.source_path, hello.search_metadata.title) == ("notes/hello.txt", "hello")
    assert documents["doc-1"].search_metadata.title == "A title"
    assert documents["doc-1"].blob_bag.blob.mime_type == "application/pdf"
    assert unnamed.json()["doc_id"] == hashlib.sha256(b"by content").hexdigest()


def test_a_form_of_several_files_has_an_answer_for_each(client, stored, source):
    answer = client.post(
        f"/uploads/{source}",
        files=[
            ("file", ("a.txt", b"A", "text/plain")),
            ("file", ("b.pb", b"\xff\xff", "application/x-protobuf")),
            ("file", ("c.pb", PipeDoc(doc_id="own-id").SerializeToString(), "application/x-protobuf")),
        ],
    )

    assert answer.status_code == 207
    results = answer.json()["results"]
    assert [each["status"] for each in results] == [201, 422, 201]
    assert "not a PipeDoc" in results[1]["reason"]
    assert len(stored({results[0]["doc_id"], "own-id"}, 2)) == 2


def test_a_large_blob_is_an_object_of_its_own(client, served, stored, source):
    body = random.Random(1).randbytes(INLINE + 1)
    answer = client.post(f"/uploads/{source}", content=body, headers={"X-Document-Id": "large"})

    assert answer.status_code == 201
    blob = stored({"large"}, 1)["large"].blob_bag.blob
    assert (blob.WhichOneof("content"), blob.size_bytes) == ("storage_ref", len(body))
    with open_store(served.settings.store_uri, served.settings) as store:
        assert store.get(key_of_blob(blob, served.graph.datasources[0].account_id)) == body


def test_a_checksum_that_does_not_fit_refuses_the_upload(client, source):
    right = hashlib.sha256(b"body").digest()
    digest = base64.b64encode(right).decode()
    for headers, status, error in (
        ({"X-Checksum-SHA256": right.hex().upper()}, 201, None),
        ({"Content-Digest": f"sha-256=:{digest}:"}, 200, None),
        ({"X-Checksum-SHA256": "0" * 64}, 422, "checksum_mismatch"),
        ({"X-Checksum-SHA256": "short"}, 422, "checksum_invalid"),
        ({"Content-Digest": "sha-512=:x:"}, 422, "checksum_invalid"),
    ):
        answer = client.post(f"/uploads/{source}", content=b"body", headers=headers)
        assert (answer.status_code, answer.json().get("error")) == (status, error), headers


REFUSED = [
    ("/uploads/nobody", {}, b"x", 404, "datasource_unknown"),
    ("/uploads/../x", {}, b"x", 404, "not_found"),
    ("/uploads/UNIQUE", {}, b"", 422, "empty"),
    ("/uploads/UNIQUE", {}, b"x" * (LIMIT + 1), 413, "too_large"),
    ("/uploads/UNIQUE", {"Content-Type": "multipart/mixed; boundary=x"}, b"x", 415, "unsupported"),
    ("/uploads/UNIQUE", {"Content-Type": "multipart/form-data"}, b"x", 422, "multipart_invalid"),
    ("/uploads/UNIQUE", {"Content-Type": "application/x-www-form-urlencoded"}, b"a=b", 415, "unsupported"),
    ("/uploads/UNIQUE", {"Content-Encoding": "gzip"}, b"x", 415, "unsupported"),
    ("/uploads/UNIQUE", {"X-Document-Id": "../../etc"}, b"x", 422, "invalid"),
    ("/uploads/UNIQUE", {"Content-Type": "application/x-protobuf"}, b"\xff", 422, "invalid"),
    ("/webhooks/UNIQUE", {"Content-Type": "text/plain"}, b"{}", 415, "unsupported"),
    ("/webhooks/UNIQUE", {"Content-Type": "application/json"}, b"{}", 401, "signature_invalid"),
    ("/other", {}, b"x", 404, "not_found"),
]


def test_what_cannot_be_taken_in_is_refused_with_a_reason(client, source):
    for path, headers, content, status, error in REFUSED:
        answer = client.post(path.replace("UNIQUE", source), content=content, headers=headers)

        assert (answer.status_code, answer.json()["error"]) == (status, error), (path, headers)
        assert answer.json()["reason"]


def test_a_webhook_with_the_right_signature_becomes_a_document(client, stored, source):
    def post(body: bytes):
        signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Signature-256": signature}
        return client.post(f"/webhooks/{source}", content=body, headers=headers)

    event = {"id": "event-1", "title": "An event", "values": [1, None, "ü"]}
    answer = post(json.dumps(event).encode())

    assert (answer.status_code, answer.json()["doc_id"]) == (201, "event-1")
    assert [post(body).status_code for body in (b"{", b"[1]", b'{"a": NaN}', b"[" * 5_000)] == [422, 201, 422, 422]
    document = stored({"event-1"}, 1)["event-1"]
    assert (document.search_metadata.title, json.loads(document.search_metadata.body)) == ("An event", event)
    assert document.structured_data.type_url.endswith("google.protobuf.Struct")


def test_the_memory_does_not_grow_with_the_size_of_a_refused_upload(client, server, source):
    def refuse(size_mb: int) -> None:
        def body():
            for _ in range(size_mb):
                yield b"x" * 1_000_000

        try:
            answer = client.post(f"/uploads/{source}", content=body())
        except httpx.WriteError:  # it was refused, and the rest not read
            return
        assert answer.status_code == 413

    refuse(1)
    before = psutil.Process(server.pid).memory_info().rss
    for _ in range(3):
        refuse(100)
    assert psutil.Process(server.pid).memory_info().rss - before < 30_000_000


def test_fuzzed_requests_get_only_documented_answers(client, server, source):
    chance = random.Random(20)
    paths = [f"/uploads/{source}", f"/webhooks/{source}", "/uploads/%00", "/uploads/x%2Fy", "/health", "/nothing", "/"]
    kinds = [
        "",
        "text/plain",
        "multipart/form-data; boundary=b",
        "application/json",
        "application/x-protobuf",
        ";;",
        "ü",
    ]
    names = ["X-Document-Id", "X-Filename", "X-Title", "Content-Digest", "X-Checksum-SHA256", "X-Signature-256"]
    bodies = [
        b"",
        b"--b\r\n",
        b"--b\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\nv\r\n--b--\r\n",
        b"{}",
    ]
    seen = set()
    for _ in range(300):
        headers = {"Content-Type": chance.choice(kinds).encode()}
        headers |= {name: chance.randbytes(chance.randrange(20)).hex().encode() for name in chance.sample(names, 2)}
        if chance.random() < 0.3:
            headers[chance.choice(names)] = "\u00fc\u00ff".encode("latin-1")
        body = chance.choice(bodies) + chance.randbytes(chance.choice([0, 1, 50, 20_000]))
        method = chance.choice(["POST", "POST", "POST", "PUT", "GET", "DELETE"])
        answer = client.request(method, chance.choice(paths), content=body, headers=headers)
        seen.add(answer.status_code)
        if answer.status_code >= 400:
            assert answer.json()["reason"], answer.text

    assert seen <= DOCUMENTED
    assert {201, 404, 405, 422} <= seen
    assert server.is_running()
    assert "unexpected error" not in server.log_file.read_text()


# The last test of this file: it stops the server.
def test_health_and_metrics_are_there_and_a_stop_is_graceful(client, server, source):
    client.post(f"/uploads/{source}", content=b"the last one")

    assert client.get("/health").json()["status"] == "SERVING"
    assert 'pipestream_http_requests_total{code="201",route="uploads"}' in client.get("/metrics").text
    assert client.get(f"/uploads/{source}").status_code == 405
    assert server.stop() == 0
