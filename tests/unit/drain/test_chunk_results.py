from __future__ import annotations

import textwrap

import pytest

from pipestream.documents.references import key_of, stream_key
from pipestream.drain.chunk import ChunkResult, chunk_processor
from pipestream.engine.carry import RecordResult
from pipestream.engine.dead_letter_record import CONNECT, OWN
from pipestream.engine.services import open_services
from pipestream.errors import ModuleFailed, ProcessDied
from pipestream.graph.flow import fused_with
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.ledger import Tally
from pipestream.settings import Settings
from pipestream.topic_names import is_intake
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.made import make_task

FAILING = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a}]
    nodes:
      - id: a
        module: python:pipestream_testing.steps:fail_on_bad
      - id: b
        module: python:pipestream_testing.steps:fail_on_bad
    edges: [{from: a, to: b}]
"""
WITHOUT_PAYLOAD = FAILING.replace("fail_on_bad", "fail_on_bad\n        dead_letters: {include_payload: false}")
FUSED = FAILING.replace("steps:fail_on_bad", "steps:pass_on", 1).replace("to: b", "to: b, transport: grpc")
ERROR_END = FAILING.replace("nodes:", "error_end: failed\n    nodes:\n      - {id: failed, type: sink}")


def stream_of(doc_id, **metadata):
    stream = PipeStream()
    stream.document.doc_id = doc_id
    stream.document.search_metadata.title = doc_id
    stream.document.search_metadata.body = "a secret"
    for name, value in metadata.items():
        setattr(stream.metadata, name, value)
    return stream


def record_of(value, topic="intake.s", offset=7):
    data = value if value is None or isinstance(value, bytes) else value.SerializeToString()
    return InputRecord(topic, 0, offset, 0, b"key", data, (("own", b"kept"),))


@pytest.fixture
def processor_of(store):
    """Make what processes the chunks of a task of a graph: of its intake, or of a node's own topic."""
    opened = []

    def make(text, topic="intake.s", lane="g"):
        graph = check_graph_text(textwrap.dedent(text).encode(), "g.yaml").require()
        if is_intake(topic):
            task = make_task(topic, "a", datasource_id="s", lane=lane, is_live=lane == "g")
        else:
            task = make_task(topic, topic.rpartition(".")[2], lane=lane, is_live=lane == "g")
        services = open_services(built(graph), Settings(), fused_with(graph, task.node_id))
        opened.append(services)
        return chunk_processor(task, graph, services.__enter__(), store, Settings())

    yield make
    for services in opened:
        services.__exit__(None, None, None)


def only_output(result):
    (output,) = result.outputs
    return output


def test_a_dead_letter_has_the_original_bytes(processor_of):
    record = record_of(stream_of("bad"))

    result = processor_of(FAILING).process([record])

    letter = only_output(result)
    assert (letter.topic, letter.value) == ("dlq.intake.s", record.value)
    assert (result.failed, result.last_error, result.objects) == (1, "ModuleFailed: bad is bad", {})
    assert result.tally(0) == Tally(1, {}, 1)


OWN_TOPIC = FAILING.replace("fail_on_bad", "fail_on_bad\n        dead_letters: {topic: my-letters}", 1)


def test_a_dead_letter_of_an_entry_node_goes_to_the_topic_that_the_node_names(processor_of):
    record = record_of(stream_of("bad"))

    letter = only_output(processor_of(OWN_TOPIC).process([record]))

    assert (letter.topic, letter.value) == ("my-letters", record.value)
    # Its value is not yet a stream of the node's, so the letter says where it came in.
    assert header(letter.headers, OWN + "datasource") == "s"


def test_a_dead_letter_that_goes_back_by_its_topics_name_does_not_name_its_datasource(processor_of):
    letter = only_output(processor_of(FAILING).process([record_of(stream_of("bad"))]))

    assert header(letter.headers, OWN + "datasource") is None


def test_without_payload_a_dead_letter_refers_to_its_document_which_is_stored(processor_of, store):
    record = record_of(stream_of("bad"))

    result = processor_of(WITHOUT_PAYLOAD).process([record])

    letter = only_output(result)
    assert b"a secret" not in letter.value
    assert (letter.topic, letter.key) == ("dlq.intake.s", record.key)
    assert header(letter.headers, "own") == "kept"
    kept = PipeStream.FromString(letter.value)
    assert kept.document_ref.doc_id == "bad"
    assert {key_of(kept): stream_of("bad").document.SerializeToString(deterministic=True)} == result.objects


def test_a_dead_letter_without_payload_can_be_replayed(processor_of, store):
    first = processor_of(WITHOUT_PAYLOAD).process([record_of(stream_of("bad"))])
    store.put_many(list(first.objects.items()))
    replayed = InputRecord("intake.s", 0, 8, 0, b"key", only_output(first).value)

    mended = processor_of(WITHOUT_PAYLOAD.replace("fail_on_bad", "pass_on")).process([replayed])

    output = only_output(mended)
    assert (output.topic, mended.failed) == ("pipestream.main.b", 0)
    document = PipeDoc.FromString(mended.objects[key_of(PipeStream.FromString(output.value))])
    assert document.search_metadata.body == "a secret"


def test_a_replay_that_fails_again_keeps_its_reference(processor_of, store):
    processor = processor_of(WITHOUT_PAYLOAD)
    first = processor.process([record_of(stream_of("bad"))])
    store.put_many(list(first.objects.items()))
    letter = only_output(first)

    again = processor.process([InputRecord("intake.s", 0, 8, 0, b"key", letter.value)])

    assert only_output(again).value == letter.value


def test_documents_of_a_nodes_own_topic_and_of_backfills_are_stored_apart(processor_of):
    stream = stream_of("bad", account_id="acme")
    stream.stream_id = "s1"
    stream.current_node_id = "b"
    record = record_of(stream, topic="pipestream.main.b")

    live = processor_of(WITHOUT_PAYLOAD, record.topic).process([record])
    backfill = processor_of(WITHOUT_PAYLOAD, record.topic, lane="g@again").process([record])

    for result in (live, backfill):
        kept = PipeStream.FromString(only_output(result).value)
        assert kept.current_node_id == "b"
        assert [key_of(kept)] == list(result.objects)
    assert live.objects.keys().isdisjoint(backfill.objects)


@pytest.mark.parametrize("payload", ["inline", "stored aside", "by reference", "by reference without a key"])
def test_a_replay_of_what_failed_in_a_backfill_leaves_alone_what_the_live_run_made(processor_of, store, payload):
    graph = WITHOUT_PAYLOAD if payload == "stored aside" else FAILING
    mended = graph.replace("fail_on_bad", "pass_on").replace("to: b}", "to: b}, {from: b, to: a, max_hops: 9}")
    stream = stream_of("bad", account_id="acme")
    stream.stream_id = "s1"
    stream.current_node_id = "b"
    if payload.startswith("by reference"):
        key = stream_key("acme", "s1", "a")
        store.put(key, stream.document.SerializeToString())
        stream.document_ref.source_node_id = "a"
        stream.document_ref.object_key = "" if payload.endswith("without a key") else key
    record = record_of(stream, topic="pipestream.main.b")

    live = processor_of(mended, record.topic).process([record])
    backfill = processor_of(graph, record.topic, lane="g@again").process([record])
    store.put_many(list(backfill.objects.items()))
    letter = only_output(backfill)
    replayed = processor_of(mended, record.topic).process(
        [InputRecord(record.topic, 0, 99, 0, letter.key, letter.value)]
    )

    assert (live.failed, backfill.failed, replayed.failed) == (0, 1, 0)
    assert live.objects.keys().isdisjoint(replayed.objects)
    assert [*live.objects.values()] == [*replayed.objects.values()]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"\xff\xfe", id="no stream"),
        pytest.param(None, id="no value"),
        pytest.param(stream_of("bad", account_id="../other"), id="an account that cannot be in a key"),
    ],
)
def test_without_payload_what_cannot_be_stored_stays_in_its_dead_letter(processor_of, value):
    record = record_of(value)

    result = processor_of(WITHOUT_PAYLOAD).process([record])

    assert only_output(result).value == record.value
    assert result.objects == {}


@pytest.mark.parametrize("said_by", ["stream", "reference", "both"])
def test_an_intake_record_of_another_account_than_its_datasources_is_refused(processor_of, store, said_by):
    key = "documents/victim/s/doc/theirs.pb"
    store.put(key, stream_of("doc").document.SerializeToString())
    stream = PipeStream()
    stream.document_ref.object_key = key
    if said_by != "reference":
        stream.metadata.account_id = "victim"
    if said_by != "stream":
        stream.document_ref.account_id = "victim"

    result = processor_of(FAILING).process([record_of(stream)])

    reason = "RecordInvalid: the record belongs to account 'victim', but datasource s belongs to 'acme'"
    assert (result.failed, result.last_error, result.objects) == (1, reason, {})


def test_an_intake_record_that_names_no_account_is_of_its_datasources(processor_of, store):
    store.put("documents/acme/s/doc/ours.pb", stream_of("doc").document.SerializeToString())
    stream = PipeStream()
    stream.document_ref.object_key = "documents/acme/s/doc/ours.pb"

    result = processor_of(FAILING).process([record_of(stream)])

    assert result.failed == 0
    assert PipeStream.FromString(only_output(result).value).metadata.account_id == "acme"


def test_what_a_fused_node_could_not_process_is_not_stored_under_the_name_of_its_output(processor_of, store):
    failed = processor_of(FUSED).process([record_of(stream_of("bad"))])
    store.put_many(list(failed.objects.items()))
    letter = only_output(failed)
    assert letter.topic == "dlq.main.b"
    record = InputRecord("pipestream.main.b", 0, 3, 0, letter.key, letter.value)

    replayed = processor_of(FUSED.replace("fail_on_bad", "pass_on"), record.topic).process([record])

    # A replay that dies after it has stored its output must find its input again.
    assert failed.objects.keys().isdisjoint(replayed.objects)
    assert replayed.failed == 0


def test_a_record_is_given_up_as_a_dead_letter_with_the_reason_and_the_attempts(processor_of):
    record = record_of(stream_of("deadly"))

    result = processor_of(FAILING).give_up(record, ProcessDied(["a"], 2), attempts=3)

    letter = only_output(result)
    assert (letter.topic, letter.value) == ("dlq.intake.s", record.value)
    assert header(letter.headers, CONNECT + "exception.class.name") == "ProcessDied"
    assert "died 2 times" in header(letter.headers, CONNECT + "exception.message")
    assert header(letter.headers, OWN + "attempts") == "3"
    assert (result.is_given_up, result.dead_letters) == (True, 1)


def test_a_record_is_given_up_to_the_error_end_without_its_document_being_fetched(processor_of):
    stream = PipeStream()
    stream.document_ref.doc_id = "deadly"
    stream.document_ref.account_id = "acme"
    stream.document_ref.object_key = "documents/acme/s/deadly/nowhere.pb"

    result = processor_of(ERROR_END).give_up(record_of(stream), ProcessDied(["a"], 2), attempts=3)

    output = only_output(result)
    assert (output.topic, output.key, result.sent) == ("pipestream.main.failed", b"deadly", ("error-end",))
    sent = PipeStream.FromString(output.value)
    assert key_of(sent) == "documents/acme/s/deadly/nowhere.pb"
    assert sent.metadata.stream_error.error_code == "ProcessDied"


def test_a_record_may_be_given_up_as_a_dead_letter_even_if_there_is_an_error_end(processor_of):
    record = record_of(stream_of("wide"))

    result = processor_of(ERROR_END).give_up(record, ModuleFailed("x"), attempts=1, as_dead_letter=True)

    assert only_output(result).topic == "dlq.intake.s"


@pytest.mark.parametrize("value", [b"\xff\xfe", None], ids=["other bytes", "no value"])
def test_an_intake_record_that_cannot_be_parsed_goes_to_the_error_end_with_its_bytes(processor_of, value):
    result = processor_of(ERROR_END).process([record_of(value)])

    output = only_output(result)
    assert (output.topic, output.key) == ("pipestream.main.failed", b"key")
    sent = PipeStream.FromString(output.value)
    assert sent.metadata.stream_error.error_code == "RecordInvalid"
    assert (sent.metadata.account_id, sent.metadata.datasource_id) == ("acme", "s")
    assert dict(sent.metadata.context_params) == {"topic": "intake.s", "partition": "0", "offset": "7"}
    document = PipeDoc.FromString(result.objects[key_of(sent)])
    assert document.blob_bag.blob.data == (value or b"")


def test_a_second_try_gives_what_cannot_be_parsed_the_same_names(processor_of):
    first, again = (processor_of(ERROR_END).process([record_of(b"\xff")]) for _ in range(2))

    assert list(first.objects) == list(again.objects)


def test_on_a_nodes_topic_what_cannot_be_parsed_is_a_dead_letter_for_nobody_knows_its_account(processor_of):
    result = processor_of(ERROR_END, "pipestream.main.b").process([record_of(b"\xff", "pipestream.main.b")])

    assert only_output(result).topic == "dlq.main.b"


def test_a_stream_that_cannot_enter_is_a_dead_letter_that_can_be_replayed(processor_of):
    result = processor_of(ERROR_END).process([record_of(stream_of("d1", account_id="other"))])

    assert only_output(result).topic == "dlq.intake.s"


def test_a_record_that_is_not_a_stream_is_given_up_as_a_dead_letter(processor_of):
    result = processor_of(ERROR_END).give_up(record_of(b"\xff\xfe"), ProcessDied(["a"], 2), attempts=3)

    assert (only_output(result).topic, only_output(result).value) == ("dlq.intake.s", b"\xff\xfe")


def test_a_result_that_replaces_another_keeps_its_place_and_counts_once():
    records = [record_of(b"", offset=offset) for offset in range(3)]
    result = ChunkResult(records)
    for record in records:
        outputs = [OutputRecord(f"to-{record.offset}", None, b"")] * record.offset
        result.put(RecordResult(record, outputs, sent=["edge"] * record.offset))

    assert [result.owner(index).record.offset for index in range(3)] == [1, 2, 2]
    result.put(RecordResult(records[1], [OutputRecord("dlq", None, b"")], dead_letters=1, error=ModuleFailed("x")))

    assert [output.topic for output in result.outputs] == ["dlq", "to-2", "to-2"]
    assert (len(result), result.failed, result.tally(0)) == (3, 1, Tally(3, {"edge": 2}, 1))
