"""Level-2 hydration: which module gets which blob, and what is left of it afterwards."""

from __future__ import annotations

import hashlib
import textwrap
from dataclasses import replace

import pytest

from pipestream.engine.follow import follow
from pipestream.engine.outputs import output_of
from pipestream.engine.process import Outcome
from pipestream.engine.services import open_services
from pipestream.errors import DocumentMissing, ModuleDown, RecordInvalid, StoreRefused, StoreUnavailable
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import Blob, PipeDoc, PipeStream
from pipestream_testing.modules import GrpcModuleServer

GRAPH = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a}]
    nodes:
      - {id: a, module: "python:pipestream_testing.parsers:parse"}
      - {id: b, module: "python:pipestream_testing.parsers:look"}
    edges: [{from: a, to: b}]
"""
KEY = "blobs/acme/s/d1/{}"


@pytest.fixture
def settings(tmp_path):
    return Settings(store_uri=f"file://{tmp_path}/objects", retry_initial_ms=0, retry_max_ms=0)


@pytest.fixture
def store(settings):
    with open_store(settings.store_uri, settings) as opened:
        yield opened


def graph_of(text=GRAPH, module="", **replaced):
    if module:
        text = text.replace("parsers:parse", f"parsers:{module}")
    for old, new in replaced.items():
        text = text.replace(f"id: {old},", f"id: {old}, {new},")
    return check_graph_text(textwrap.dedent(text).encode(), "g.yaml", look_up=True).require()


def stored(store, content, **fields):
    """Store a blob and return it as a document refers to it."""
    key = KEY.format(hashlib.sha256(content.encode()).hexdigest())
    store.put(key, content.encode())
    blob = Blob(blob_id=content, size_bytes=len(content), **fields)
    blob.storage_ref.object_key = key
    return blob


def inline(content):
    return Blob(blob_id=content, data=content.encode())


def stream_with(*blobs):
    stream = PipeStream(stream_id="s1", current_node_id="a", cluster_id="main")
    stream.metadata.account_id = "acme"
    stream.metadata.datasource_id = "s"
    stream.document.doc_id = "d1"
    if len(blobs) == 1:
        stream.document.blob_bag.blob.CopyFrom(blobs[0])
    else:
        stream.document.blob_bag.blobs.blob.extend(blobs)
    return stream


def run(stream, graph, settings):
    with open_services(built(graph), settings, [node.node_id for node in graph.nodes]) as services:
        return follow(stream, graph, services, settings)


def run_one(stream, graph, settings):
    (emission,) = run(stream, graph, settings)
    assert emission.error is None, emission.error
    return emission


def contents(document):
    bag = document.blob_bag
    blobs = [bag.blob] if bag.WhichOneof("blob_data") == "blob" else bag.blobs.blob
    return [blob.WhichOneof("content") for blob in blobs]


# The five cases of parser hydration.


def test_a_module_that_is_not_a_parser_gets_the_reference(store, settings):
    emission = run_one(stream_with(stored(store, "one")), graph_of(module="look"), settings)

    assert emission.stream.document.search_metadata.body == "REF"
    assert contents(emission.stream.document) == ["storage_ref"]


def test_a_parser_gets_an_inline_blob_as_it_is_and_nothing_is_fetched(settings):
    emission = run_one(stream_with(inline("one")), graph_of(), settings)

    assert emission.stream.document.search_metadata.body == "one"
    assert contents(emission.stream.document) == ["data"]


def test_a_parser_gets_a_blob_by_reference_inline_and_the_reference_goes_on(store, settings):
    blob = stored(store, "one")

    emission = run_one(stream_with(blob), graph_of(), settings)

    assert emission.stream.document.search_metadata.body == "one"
    assert emission.stream.document.blob_bag.blob == blob


def test_a_parser_gets_several_blobs_of_which_only_the_references_are_fetched(store, settings):
    blobs = [stored(store, "one"), inline("two"), stored(store, "three")]

    emission = run_one(stream_with(*blobs), graph_of(), settings)

    assert emission.stream.document.search_metadata.body == "one,two,three"
    assert list(emission.stream.document.blob_bag.blobs.blob) == blobs


def test_a_missing_blob_is_the_failure_of_its_document_which_stays_as_it_came(store, settings):
    blobs = [stored(store, "one"), stored(store, "two")]
    store.delete(blobs[1].storage_ref.object_key)
    stream = stream_with(*blobs)

    (emission,) = run(stream, graph_of(), settings)

    assert isinstance(emission.error, DocumentMissing)
    assert "blob 'two'" in str(emission.error)
    assert (emission.outcome, emission.attempts) == (Outcome.DEAD_LETTER, 1)
    assert emission.stream.document == stream_with(*blobs).document


# Who is a parser.


@pytest.mark.parametrize(("parser", "body"), [("parser: true", "one"), ("parser: false", "REF")])
def test_a_graph_can_call_a_module_a_parser_that_does_not_declare_it(store, settings, parser, body):
    emission = run_one(stream_with(stored(store, "one")), graph_of(module="look", a=parser), settings)

    assert emission.stream.document.search_metadata.body == body


def test_a_function_in_a_process_of_its_own_is_a_parser_by_its_declaration(store, settings):
    blob = stored(store, "one")

    emission = run_one(stream_with(blob), graph_of(GRAPH.replace("python:", "runtime:", 1)), settings)

    assert emission.stream.document.search_metadata.body == "one"
    assert emission.stream.document.blob_bag.blob == blob


@pytest.mark.parametrize(("types", "expected"), [((1,), b"one"), ((2,), b""), (None, b"")])
def test_a_grpc_module_is_a_parser_by_its_registration(store, settings, types, expected):
    seen = []

    def handle(request, context):
        seen.append(request.document.blob_bag.blob.data)
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(handle, capabilities=types) as server:
        graph = check_graph_text(
            textwrap.dedent(GRAPH).replace("python:pipestream_testing.parsers:parse", server.spec).encode(), "g"
        ).require()
        emission = run_one(stream_with(stored(store, "one")), graph, settings)

    assert seen == [expected]
    assert contents(emission.stream.document) == ["storage_ref"]


# What a reference may lead to.


@pytest.mark.parametrize(
    "key",
    [
        KEY.format("0").replace("acme", "other"),
        "documents/acme/s/d1/0.pb",
        "streams/acme/s1/a.pb",
        "blobs/acme/../other/s/d1/0",
        "blobs/acme",
        "",
    ],
)
def test_a_reference_cannot_lead_out_of_the_blobs_of_its_account(settings, key):
    blob = Blob(blob_id="b")
    blob.storage_ref.object_key = key

    (emission,) = run(stream_with(blob), graph_of(), settings)

    assert isinstance(emission.error, RecordInvalid)


def test_a_blob_that_is_not_the_one_the_document_describes_is_refused(store, settings):
    wrong_size = stored(store, "one")
    wrong_size.size_bytes = 4
    wrong_sum = stored(store, "two", checksum="0" * 64, checksum_type=3)

    for blob, reason in ((wrong_size, "has 3 bytes, and the document says 4"), (wrong_sum, "sha256")):
        (emission,) = run(stream_with(blob), graph_of(), settings)
        assert isinstance(emission.error, RecordInvalid)
        assert reason in str(emission.error)


class FlakyStore:
    """Fails so many times before it answers."""

    def __init__(self, store, failures):
        self.store, self.failures, self.tries = store, failures, 0

    def get_many(self, keys):
        self.tries += 1
        if self.tries <= self.failures:
            raise StoreUnavailable("no route to the store")
        return self.store.get_many(keys)


def test_a_store_that_cannot_be_reached_is_tried_again(store, settings):
    graph, flaky = graph_of(), FlakyStore(store, settings.max_attempts - 1)

    with open_services(built(graph), settings, ["a", "b"], flaky) as services:
        (emission,) = follow(stream_with(stored(store, "one")), graph, services, settings)

    assert emission.stream.document.search_metadata.body == "one"
    assert flaky.tries == settings.max_attempts


def test_a_store_that_stays_away_stops_the_range_and_fails_no_document(store, settings):
    graph, flaky = graph_of(), FlakyStore(store, settings.max_attempts)

    with open_services(built(graph), settings, ["a", "b"], flaky) as services, pytest.raises(StoreUnavailable):
        follow(stream_with(stored(store, "one")), graph, services, settings)

    assert flaky.tries == settings.max_attempts


@pytest.mark.parametrize("error", [StoreRefused("no rights"), ModuleDown("grpc:m", "no answer", 1)])
def test_what_no_document_is_to_blame_for_makes_no_dead_letter(store, settings, error):
    class Refusing:
        def get_many(self, keys):
            raise error

    graph = graph_of()
    with open_services(built(graph), settings, ["a", "b"], Refusing()) as services, pytest.raises(type(error)):
        follow(stream_with(stored(store, "one")), graph, services, settings)


# What is left of a blob behind the module.


def test_a_blob_that_the_module_changed_goes_on_inline(store, settings):
    emission = run_one(stream_with(stored(store, "one")), graph_of(module="rewrite"), settings)

    assert emission.stream.document.blob_bag.blob.data == b"one changed"


@pytest.mark.parametrize("module", ["skip", "take_apart"])
def test_fetched_bytes_become_part_of_no_document_that_goes_on(store, settings, module):
    emissions = run(stream_with(stored(store, "one")), graph_of(module=module), settings)

    assert [contents(each.stream.document) for each in emissions] == [["storage_ref"]] * len(emissions)
    assert all(b"one" not in output_of(each, graph_of()).record.value for each in emissions)


def test_blobs_can_be_dropped_behind_a_parser_and_their_description_stays(store, settings):
    graph = graph_of(a="hydration: {drop_blobs_after_parse: true}")

    emission = run_one(stream_with(stored(store, "one", mime_type="text/plain"), inline("two")), graph, settings)

    assert emission.stream.document.search_metadata.body == "one,two"
    first, second = emission.stream.document.blob_bag.blobs.blob
    assert (first.mime_type, first.size_bytes, first.WhichOneof("content")) == ("text/plain", 3, None)
    assert second.WhichOneof("content") is None


def test_only_a_parser_drops_blobs(store, settings):
    graph = graph_of(module="look", a="hydration: {drop_blobs_after_parse: true}")

    emission = run_one(stream_with(stored(store, "one")), graph, settings)

    assert contents(emission.stream.document) == ["storage_ref"]


# Which rule holds.


@pytest.mark.parametrize(
    ("hydration", "body"),
    [
        ("{policy: auto}", "one,three"),
        ("{policy: auto, max_inline_blob_size_bytes: 3}", "one,REF"),
        ("{policy: always_inline, max_inline_blob_size_bytes: 3}", "one,three"),
        ("{policy: always_ref}", "REF,REF"),
        ("{policy: on_demand}", "REF,REF"),
    ],
)
def test_the_policy_says_which_blobs_a_parser_gets(store, settings, hydration, body):
    blobs = [stored(store, "one"), stored(store, "three")]

    emission = run_one(stream_with(*blobs), graph_of(a=f"hydration: {hydration}"), settings)

    assert emission.stream.document.search_metadata.body == body
    assert contents(emission.stream.document) == ["storage_ref", "storage_ref"]


def test_a_blob_of_unknown_size_above_the_limit_stays_a_reference(store, settings):
    blob = stored(store, "three")
    blob.size_bytes = 0

    emission = run_one(
        stream_with(blob), graph_of(a="hydration: {policy: auto, max_inline_blob_size_bytes: 3}"), settings
    )

    assert emission.stream.document.search_metadata.body == "REF"


def test_the_node_is_asked_first_then_the_stream_then_the_datasource(store, settings):
    of_datasource = graph_of(s="hydration: {drop_blobs_after_parse: true}")
    of_node = graph_of(s="hydration: {drop_blobs_after_parse: true}", a="hydration: {policy: always_inline}")
    plain, own = stream_with(stored(store, "one")), stream_with(stored(store, "one"))
    own.metadata.ingestion_config.hydration_config.default_hydration_policy = 1
    silent = stream_with(stored(store, "one"))
    silent.metadata.ingestion_config.output_hints.desired_collection = "c"

    left = [
        contents(run_one(stream, graph, settings).stream.document)
        for stream, graph in ((plain, of_datasource), (silent, of_datasource), (own, of_datasource), (plain, of_node))
    ]

    assert left == [[None], [None], ["storage_ref"], ["storage_ref"]]


@pytest.mark.parametrize("rule", ["{policy: always_ref}", "{max_inline_blob_size_bytes: 1}"])
def test_a_parser_gets_blobs_however_the_datasource_stores_them(store, settings, rule):
    emission = run_one(stream_with(stored(store, "one")), graph_of(s=f"hydration: {rule}"), settings)

    assert emission.stream.document.search_metadata.body == "one"
    assert contents(emission.stream.document) == ["storage_ref"]


def test_a_chain_of_parsers_fetches_a_blob_once_if_it_may(store, settings):
    chain = GRAPH.replace("parsers:look", "parsers:parse").replace("to: b}", "to: b, transport: grpc}")
    fetched = []

    class Counting:
        def get_many(self, keys):
            fetched.extend(keys)
            return store.get_many(keys)

    counts = []
    for rule in ("{policy: auto}", "{allow_inline_blobs_for_parser_chains: true}"):
        fetched.clear()
        graph = graph_of(chain, s=f"hydration: {rule}")
        with open_services(built(graph), settings, ["a", "b"], Counting()) as services:
            (emission,) = follow(stream_with(stored(store, "one")), graph, services, settings)
        assert emission.stream.document.search_metadata.body == "one,one"
        counts.append(len(fetched))

    assert counts == [2, 1]


# What is sent and stored.


def test_large_blobs_are_put_aside_when_the_document_leaves_if_the_rule_says_so(store, settings):
    graph = graph_of(s="hydration: {keep_blobs_as_ref: true, max_inline_blob_size_bytes: 3}")
    emission = run_one(stream_with(inline("one"), inline("three")), graph, settings)

    output = output_of(emission, graph)

    checksum = hashlib.sha256(b"three").hexdigest()
    assert output.objects[KEY.format(checksum)] == b"three"
    (document,) = [PipeDoc.FromString(data) for key, data in output.objects.items() if key.endswith(".pb")]
    small, large = document.blob_bag.blobs.blob
    assert small.data == b"one"
    assert (large.size_bytes, large.checksum, large.checksum_type) == (5, checksum, 3)
    store.put_many(list(output.objects.items()))
    again = stream_with(small, large)
    assert run_one(again, graph_of(), settings).stream.document.search_metadata.body == "one,three"


def test_a_small_document_stays_in_the_record_where_its_datasource_does_not_persist(settings):
    text = "persistence: {persist_pipedoc: false, max_inline_size_bytes: 100}"
    small, large = stream_with(inline("one")), stream_with(inline("o" * 100))
    graph = graph_of(s=text)

    outputs = [output_of(run_one(stream, graph, settings), graph) for stream in (small, large)]

    kinds = [PipeStream.FromString(output.record.value).WhichOneof("document_payload") for output in outputs]
    assert kinds == ["document", "document_ref"]
    assert [len(output.objects) for output in outputs] == [0, 1]


@pytest.mark.parametrize("outcome", [Outcome.HAPPY_END, Outcome.ERROR_END])
def test_what_ends_is_stored_whatever_the_datasource_says(settings, outcome):
    graph = graph_of(s="persistence: {persist_pipedoc: false, max_inline_size_bytes: 100}")
    emission = run_one(stream_with(inline("one")), graph, settings)
    ended = replace(emission, outcome=outcome, edge=None, to_node_id="happy-end")

    output = output_of(ended, graph)

    assert PipeStream.FromString(output.record.value).HasField("document_ref")
    assert len(output.objects) == 1


def test_a_document_that_failed_keeps_its_blobs_as_they_came(settings):
    graph = graph_of(s="hydration: {keep_blobs_as_ref: true}")
    emission = run_one(stream_with(inline("one")), graph, settings)
    failed = replace(emission, error=RecordInvalid("no"), outcome=Outcome.ERROR_END, edge=None, to_node_id="happy-end")

    (data,) = output_of(failed, graph).objects.values()

    assert PipeDoc.FromString(data).blob_bag.blob.data == b"one"
