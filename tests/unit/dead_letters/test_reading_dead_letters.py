from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipestream.dead_letters.browse import histogram
from pipestream.dead_letters.letter import Decision, LetterId, Origin, State, read_letter
from pipestream.dead_letters.message import describe, to_dlq_message
from pipestream.engine.dead_letter_record import dead_letter
from pipestream.errors import IdInvalid, ModuleFailed
from pipestream.kafka.records import InputRecord
from pipestream.wire import PipeStream

TIME = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def stream_bytes(doc_id="d1", body="the whole text"):
    stream = PipeStream(stream_id="s1", current_node_id="parse")
    stream.document.doc_id = doc_id
    stream.document.search_metadata.title = "a title"
    stream.document.search_metadata.body = body
    stream.document.blob_bag.blob.data = b"a blob"
    return stream.SerializeToString()


def lying_in(topic, *, key=b"k", value=b"", headers=(), offset=17):
    return InputRecord(topic, 0, offset, int(TIME.timestamp() * 1000), key, value, headers)


def failed_record(value=None, headers=()):
    original = InputRecord("pipestream.main.parse", 1, 5, 0, b"k", stream_bytes() if value is None else value, headers)
    letter = dead_letter(
        original,
        ModuleFailed("it broke"),
        topic="dlq.main.parse",
        node_id="parse",
        attempts=3,
        run_id="run-1",
        graph_id="g",
        graph_hash="abc",
        now=TIME.timestamp(),
    )
    return lying_in("dlq.main.parse", key=letter.key, value=letter.value, headers=letter.headers)


def test_a_letter_of_a_drain_says_what_failed_where_and_why():
    letter = read_letter(failed_record())

    assert letter.letter_id == LetterId("dlq.main.parse", 0, 17)
    assert (letter.doc_id, letter.node_id) == ("d1", "parse")
    assert (letter.error_kind, letter.message) == ("ModuleFailed", "it broke")
    assert letter.origin == Origin("pipestream.main.parse", 1, 5)
    assert (letter.attempts, letter.replays) == (3, 0)
    assert (letter.run_id, letter.graph_id, letter.graph_hash) == ("run-1", "g", "abc")
    assert letter.failed_at == letter.first_failed_at == TIME
    assert letter.state is State.OPEN


def test_a_letter_that_failed_again_keeps_its_first_failure_and_its_replays():
    headers = (("pipestream.dead.first-failed-at", b"2026-01-01T00:00:00.000+00:00"), ("pipestream.dead.replays", b"2"))

    letter = read_letter(failed_record(headers=headers))

    assert letter.first_failed_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert letter.failed_at == TIME
    assert letter.replays == 2


def test_a_record_of_another_tool_is_a_letter_with_what_the_record_says():
    letter = read_letter(lying_in("dlq.main.parse", key=b"order-7", value=b"\xff\x00 not a message"))

    assert (letter.doc_id, letter.node_id, letter.error_kind) == ("order-7", "parse", "")
    assert letter.origin is None
    assert letter.failed_at == letter.first_failed_at == letter.time == TIME
    assert (letter.attempts, letter.replays) == (0, 0)


def test_a_record_of_kafka_connect_is_understood_and_its_stage_is_not_taken_for_a_node():
    headers = (
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    )

    letter = read_letter(lying_in("dlq.main.parse", value=b"{", headers=headers))

    assert letter.node_id == "parse"
    assert letter.origin == Origin("orders", 3, None)
    assert letter.error_kind == "org.apache.kafka.connect.errors.DataException"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((("pipestream.dead.replays", b"many"),), id="a count that is no number"),
        pytest.param((("pipestream.dead.replays", b"-3"),), id="a negative count"),
        pytest.param((("pipestream.dead.failed-at", b"yesterday"),), id="a time that is none"),
        pytest.param((("pipestream.dead.attempts", b"\xff\xfe"),), id="bytes that are no text"),
        pytest.param((("__connect.errors.offset", "²".encode()),), id="a digit that is no number"),
    ],
)
def test_headers_with_nonsense_in_them_are_as_if_absent(headers):
    letter = read_letter(lying_in("dlq.main.parse", headers=headers))

    assert (letter.replays, letter.attempts, letter.failed_at) == (0, 0, TIME)


def test_a_letter_in_a_topic_of_any_name_without_key_or_value_is_still_a_letter():
    letter = read_letter(lying_in("somewhere-else", key=None, value=None))

    assert (letter.doc_id, letter.node_id) == ("", "")


def test_a_letters_id_reads_back():
    assert LetterId.parse("dlq.main.parse/2/17") == LetterId("dlq.main.parse", 2, 17)
    assert str(LetterId("dlq.main.parse", 2, 17)) == "dlq.main.parse/2/17"


@pytest.mark.parametrize(
    "text", ["dlq.main.parse", "dlq.main.parse/0", "dlq.main.parse/0/x", "/0/1", "a/0/-1", "a/0/1/2"]
)
def test_what_is_not_a_letter_id_is_refused_and_the_form_is_shown(text):
    with pytest.raises(IdInvalid, match="expected TOPIC/PARTITION/OFFSET"):
        LetterId.parse(text)


def test_a_letter_becomes_the_wires_own_message():
    decision = Decision(State.QUARANTINED, "replay-1", datetime(2026, 3, 2, tzinfo=UTC))

    message = to_dlq_message(read_letter(failed_record(), decision))

    assert message.stream.document.doc_id == "d1"
    assert (message.error_type, message.error_message, message.failed_node_id) == ("ModuleFailed", "it broke", "parse")
    assert message.failed_at.ToDatetime(UTC) == TIME
    assert (message.retry_count, message.dlq_reprocess_count) == (2, 0)
    assert (message.original_topic, message.original_partition, message.original_offset) == (
        "pipestream.main.parse",
        1,
        5,
    )
    assert message.quarantined
    assert message.quarantined_at.ToDatetime(UTC) == datetime(2026, 3, 2, tzinfo=UTC)


def test_a_letter_that_is_not_a_stream_becomes_a_message_without_one():
    message = to_dlq_message(read_letter(failed_record(value=b"\xff\xff")))

    assert not message.HasField("stream")
    assert not message.quarantined
    assert not message.HasField("quarantined_at")


def test_a_letter_is_shown_without_its_documents_text_and_blobs_unless_asked_for():
    letter = read_letter(failed_record())

    shown = describe(letter)
    whole = describe(letter, with_body=True)

    assert shown["stream"]["document"]["search_metadata"] == {"title": "a title"}
    assert "blob_bag" not in shown["stream"]["document"]
    assert whole["stream"]["document"]["search_metadata"]["body"] == "the whole text"
    assert ["__connect.errors.stage", "parse"] in shown["headers"]


def test_keys_and_headers_that_are_not_text_are_shown_in_base64():
    shown = describe(read_letter(lying_in("t", key=b"\xff", headers=(("h", b"\xfe"),))))

    assert (shown["key"], shown["headers"], shown["stream"]) == ("base64:/w==", [["h", "base64:/g=="]], None)


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 20])
def test_numbers_that_no_tool_can_mean_are_passed_over(number):
    headers = (
        ("pipestream.dead.attempts", number.encode()),
        ("pipestream.dead.replays", number.encode()),
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", number.encode()),
        ("__connect.errors.offset", number.encode()),
    )

    letter = read_letter(lying_in("dlq.main.parse", headers=headers))

    assert (letter.attempts, letter.replays, letter.origin) == (0, 0, Origin("orders", None, None))
    assert to_dlq_message(letter).original_topic == "orders"


@pytest.mark.parametrize("failed_at", [b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_calendar_has_is_that_of_the_record(failed_at):
    headers = (("pipestream.dead.failed-at", failed_at),)

    letter = read_letter(lying_in("dlq.main.parse", headers=headers))

    assert to_dlq_message(letter).failed_at.ToDatetime(UTC) == letter.failed_at == TIME


def test_the_day_of_a_letter_is_that_of_utc():
    headers = (("pipestream.dead.failed-at", b"2026-03-01T00:30:00+02:00"),)

    found = histogram([read_letter(lying_in("dlq.main.parse", headers=headers))])

    assert found.by_day == {"2026-02-28": 1}


def test_a_record_with_a_time_beyond_all_calendars_is_a_letter():
    record = InputRecord("dlq.main.parse", 0, 17, 10**17, b"k", b"", ())

    assert read_letter(record).time.year == 9999
