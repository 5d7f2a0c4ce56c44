"""What is told about the dead letters of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipestream.dead_letters import read_letter
from pipestream.kafka.records import InputRecord
from pipestream.views.letter_notice import group_reasons, make_notice
from pipestream.views.run_summary import RunSummary, TopicSummary

RUN = "pipestream_sample/manual__1"
TOPIC = TopicSummary("intake.a", "sample", "", (), 0, 10, {}, 1, 0.0)
SUMMARY = RunSummary(
    RUN, (TOPIC, replace(TOPIC, topic="pipestream.main.b", documents_in=4, dead_letters=2)), 14, {}, 3, 0
)


def letter(message: str, run: str = f"{RUN}/drain_a"):
    headers = {
        "__connect.errors.exception.class.name": "ModuleFailed",
        "__connect.errors.exception.message": message,
        "__connect.errors.stage": "parse",
    }
    record = InputRecord("dlq.main.parse", 0, 0, 0, None, b"", tuple((k, v.encode()) for k, v in headers.items()))
    return replace(read_letter(record), run_id=run, node_id="parse")


def test_reasons_are_counted_and_one_that_another_run_had_is_known():
    letters = [
        letter("page 1 is bad"),
        letter("page 2 is bad"),
        letter("no text"),
        letter("no text", "other/1/drain_a"),
    ]

    reasons = group_reasons(letters, RUN)

    assert [(each.count, each.is_new, each.message) for each in reasons] == [
        (2, True, "page 1 is bad"),
        (1, False, "no text"),
    ]


def test_a_run_with_a_longer_name_is_another_run():
    assert group_reasons([letter("x", "pipestream_sample/manual__10/drain_a")], RUN) == ()


def test_the_share_is_that_of_the_worst_topic():
    notice = make_notice(SUMMARY, "sample", (), "")

    assert (notice.count, notice.share, notice.topic) == (3, 0.5, "pipestream.main.b")


@pytest.mark.parametrize(("reasons", "told"), [(5, ""), (7, "and 2 more reasons")])
def test_the_message_has_count_share_fingerprints_and_link(reasons, told):
    found = group_reasons([letter("x" * number + " is bad") for number in range(1, reasons + 1)], RUN)

    message = make_notice(SUMMARY, "sample", found, "https://airflow.example/plugin/x").message

    assert message.startswith("sample: 3 dead letters, with a new error\n50.0% of the records of pipestream.main.b, in")
    assert found[0].fingerprint in message
    assert message.endswith("\nhttps://airflow.example/plugin/x")
    assert told in message
    assert ("more reasons" in message) is bool(told)
