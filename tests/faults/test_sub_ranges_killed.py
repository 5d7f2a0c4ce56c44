"""Kill, stop and overtake a drain in sub-ranges at each of its steps: while it processes, between the stages, and while
it commits. And everything that one task per partition does about bad records, it does too.
"""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from pipestream import faults
from pipestream.drain.crash_markers import ROOT
from pipestream.drain.range_task import RangeFailed
from pipestream.engine.dead_letter_record import CONNECT, OWN
from pipestream.kafka.records import header
from pipestream.objects.store import open_store
from pipestream.topics.admin import TopicAdmin
from pipestream.wire import PipeStream
from pipestream_testing.length import by_length
from pipestream_testing.settings_file import write_settings
from pipestream_testing.submit import connect_drain, submit_drain

pytestmark = pytest.mark.stack

FIRST = "  - id: first\n    module: python:pipestream_testing."
HEALTHY = FIRST + "steps:pass_on"
DEADLY = FIRST + "modules:dying\n    config: {only: deadly}"
# A document is taken to cost 5 ms. So there are two waves, the first with 40 offsets, half of them of each partition.
CUT = {"sub_ranges": "always", "sub_range_wave_s": 0.2}
DIED = 9
STALE = re.compile(r"^(LeaseLost|ProducerFenced|RangeFailed|LedgerConflict): ", re.MULTILINE)
ONE_OF_EACH_STAGE = [(faults.SUB_RANGE_PROCESSED, 3), (faults.PIECES_GATHERED, 2)]
ALL_STEPS = [(point, nth) for point in faults.SUB_RANGE_POINTS for nth in (1, 2)]


@pytest.fixture
def in_sub_ranges(make_pipeline):
    """Make a pipeline that is drained in sub-ranges; other parameters as for ``make_pipeline``."""

    def make(*changes, **setting_changes):
        return make_pipeline(*changes, **CUT, **setting_changes)

    return make


def markers_of(pipeline):
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        return list(store.list(ROOT))


def sequences(pipeline, topic):
    """Return the documents of a topic's partitions as they were sent to each partition of the intake."""
    found = {}
    for each in pipeline.read(topic):
        origin, _, number = each.doc_id.partition("-")
        found.setdefault((each.record.partition, origin), []).append(int(number))
    return found


def test_a_drain_in_sub_ranges_keeps_order_and_counts_and_says_why(
    in_sub_ranges, documents, fill, check, topic, unique
):
    pipeline = in_sub_ranges()
    fill(pipeline, documents)

    report = pipeline.drain(topic, "run-1")

    assert report.records == len(documents)
    assert report.tasks.endswith("the setting sub_ranges is always")
    assert len(pipeline.entries(topic)) > 2, "it was one wave"
    (plan,) = {pipeline.ledger.find_plan(entry.plan_id, entry.lane) for entry in pipeline.entries(topic)}
    assert plan.tasks_reason == report.tasks
    for numbers in sequences(pipeline, f"pipestream.{unique}.second").values():
        assert numbers == sorted(numbers)
    check("none: a drain in sub-ranges", pipeline, documents)
    assert markers_of(pipeline) == []


@pytest.mark.parametrize(("point", "nth"), by_length(ONE_OF_EACH_STAGE, ALL_STEPS))
def test_a_drain_in_sub_ranges_killed_at_any_step_loses_and_repeats_nothing(
    in_sub_ranges, documents, fill, check, start_drain, drain_after_death, point, nth
):
    pipeline = in_sub_ranges()
    fill(pipeline, documents)
    killed = start_drain(pipeline, "run-1", f"{point}=kill@{nth}")
    assert killed.wait() == -signal.SIGKILL, killed.log
    died_at = time.monotonic()

    drain_after_death(pipeline, "run-2")

    check(f"SIGKILL of a drain in sub-ranges at {point}", pipeline, documents, died_at)


@pytest.mark.parametrize("point", by_length([faults.PIECES_GATHERED], faults.SUB_RANGE_POINTS[:-1]))
def test_a_drain_in_sub_ranges_that_was_stopped_and_overtaken_commits_nothing_more(
    in_sub_ranges, make_pipeline, documents, fill, check, topic, start_drain, drain_after_death, point
):
    pipeline = in_sub_ranges()
    fill(pipeline, documents)
    stale = start_drain(pipeline, "stale", f"{point}=stop", lease_ttl_s=60.0)
    stale.wait_until_stopped()
    stopped_at = time.monotonic()
    drain_after_death(make_pipeline(), "new")  # one task per partition, under the same transactional ids
    recovered_s = time.monotonic() - stopped_at
    before = pipeline.group_offsets(topic), pipeline.entries(topic)

    stale.send_signal(signal.SIGCONT)

    assert stale.wait() != 0, stale.log
    assert STALE.search(stale.log), stale.log
    assert (pipeline.group_offsets(topic), pipeline.entries(topic)) == before
    check(f"a drain in sub-ranges stopped at {point}", pipeline, documents, time.monotonic() - recovered_s)


def test_a_retry_of_a_killed_run_cuts_the_same_sub_ranges_and_keeps_what_was_committed(
    in_sub_ranges, documents, fill, check, topic, start_drain
):
    pipeline = in_sub_ranges()
    fill(pipeline, documents)
    # One partition of the first wave is committed, the other is not, and nothing is in the ledger.
    killed = start_drain(pipeline, "run-1", f"{faults.CHUNK_COMMITTED}=kill")
    assert killed.wait() == -signal.SIGKILL, killed.log
    committed, died_at = sum(pipeline.group_offsets(topic).values()), time.monotonic()

    again = start_drain(pipeline, "run-1")

    assert again.wait() == 0, again.log
    assert committed > 0
    check("SIGKILL of a drain in sub-ranges, same run again", pipeline, documents, died_at)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(documents)


@pytest.mark.parametrize("max_attempts", by_length((3,), (2, 3)))
def test_a_document_that_ends_its_process_is_given_up_in_sub_ranges_too(
    in_sub_ranges, topic, unique, check, start_drain, max_attempts
):
    pipeline = in_sub_ranges((HEALTHY, DEADLY), max_attempts=max_attempts, leases="none")
    documents = [f"doc-{number}" for number in range(35)]
    documents[3], documents[24] = "deadly-3", "deadly-24"
    pipeline.send(topic, documents)

    codes = []
    while not codes or codes[-1] == DIED:
        process = start_drain(pipeline, f"run-{len(codes)}")
        codes.append(process.wait())
        assert len(codes) < 9, process.log

    assert codes[-1] == 0, process.log
    # For each document a death that nobody expected, the others in its chunk and at it alone.
    assert codes.count(DIED) == 2 * max_attempts
    check("poison: documents end the process of a sub-range", pipeline, documents)
    letters = pipeline.read(f"dlq.intake.{unique}")
    assert [letter.doc_id for letter in letters] == ["deadly-3", "deadly-24"]
    for letter in letters:
        assert header(letter.record.headers, CONNECT + "exception.class.name") == "ProcessDied"
        assert header(letter.record.headers, OWN + "attempts") == str(max_attempts)
    assert markers_of(pipeline) == []


def test_a_drain_in_sub_ranges_of_which_most_fails_stops_before_it_fills_the_dead_letters(in_sub_ranges, topic, unique):
    pipeline = in_sub_ranges((HEALTHY, FIRST + "steps:fail_on_bad"), chunk_records=100)
    pipeline.send(topic, [f"bad-{number}" for number in range(60)])

    with pytest.raises(RangeFailed, match="records failed, so the run stopped"):
        pipeline.drain(topic, "run-1")

    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {}
    assert pipeline.entries(topic) == []


def test_an_output_that_is_too_large_for_kafka_is_given_up_by_the_task_that_commits(
    in_sub_ranges, topic, unique, check
):
    pipeline = in_sub_ranges()
    TopicAdmin(pipeline.settings).set_max_message_bytes({f"pipestream.{unique}.second": 5_000})
    wide = PipeStream()
    wide.document.doc_id = "wide"
    wide.metadata.context_params["wide"] = os.urandom(10_000).hex()
    pipeline.send(topic, ["before"])
    pipeline.send_streams(topic, [wide])
    pipeline.send(topic, ["after"])

    report = pipeline.drain(topic, "run-1")

    assert report.dead_letters == 1
    check("output of a sub-range larger than its topic allows", pipeline, {"before", "wide", "after"})
    (letter,) = pipeline.read(f"dlq.intake.{unique}")
    assert letter.doc_id == "wide"
    assert header(letter.record.headers, CONNECT + "exception.class.name") == "RecordTooLarge"


@pytest.fixture
def environment(stack, tmp_path):
    """Return the environment of a Spark job that drains a pipeline."""

    def environment(pipeline):
        config = tmp_path / "spark.toml"
        write_settings(config, pipeline.settings)
        return {**stack.environment(), "PIPESTREAM_CONFIG": str(config)}

    return environment


@pytest.mark.spark
def test_on_spark_a_document_that_ends_its_worker_is_given_up_and_the_order_stays(
    in_sub_ranges, topic, unique, spark_master, check, fill, documents, environment
):
    pipeline = in_sub_ranges((HEALTHY, DEADLY))
    documents[documents.index("0-13")] = "0-deadly"
    fill(pipeline, documents)

    done = submit_drain(pipeline, topic, "run-1", environment(pipeline), master=spark_master)

    assert done.exit_code == 0, done.log
    assert (done.outcome["status"], done.outcome["dead_letters"]) == ("drained", 1)
    assert done.outcome["tasks"].startswith("sub-ranges of ")
    check("poison: document ends the Spark worker of a sub-range", pipeline, documents)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {"0-deadly": 1}
    for numbers in sequences(pipeline, f"pipestream.{unique}.second").values():
        assert numbers == sorted(numbers)
    assert markers_of(pipeline) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("point", faults.SUB_RANGE_POINTS[:-2])
def test_a_spark_worker_that_is_killed_at_any_step_is_replaced_and_the_run_goes_through(
    in_sub_ranges, topic, spark_master, check, fill, documents, environment, tmp_path, point
):
    pipeline = in_sub_ranges()
    fill(pipeline, documents)
    once = tmp_path / "killed"
    fault = {faults.VARIABLE: f"{point}=kill", faults.ONCE_VARIABLE: str(once)}

    done = submit_drain(pipeline, topic, "run-1", environment(pipeline) | fault, master=spark_master)

    assert once.exists(), "no worker was killed"
    assert done.exit_code == 0, done.log
    recovered_s = time.time() - once.stat().st_mtime
    check(f"SIGKILL of a Spark worker of a sub-range at {point}", pipeline, documents, time.monotonic() - recovered_s)


@pytest.mark.slow
@pytest.mark.spark
def test_a_spark_connect_server_drains_in_sub_ranges(
    in_sub_ranges, topic, spark_connect, check, fill, documents, environment
):
    assert spark_connect.pid
    pipeline = in_sub_ranges()
    fill(pipeline, documents)

    done = connect_drain(pipeline, topic, "run-1", environment(pipeline))

    assert done.exit_code == 0, done.log
    assert done.outcome["tasks"].startswith("sub-ranges of ")
    check("none: a drain in sub-ranges on Spark Connect", pipeline, documents)
