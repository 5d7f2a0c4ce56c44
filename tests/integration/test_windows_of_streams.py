"""A stream over a runner whose tasks stay for a window, with everything open, and drain what arrives."""

from __future__ import annotations

from collections import Counter

import pytest

from pipestream.drain.live_lane import LiveLane
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.range_task import transactional_id
from pipestream.kafka.broker import Broker
from pipestream.leases import DesiredState, TopicMode
from pipestream.stream.executors import RunnerExecutor
from pipestream.stream.windows import Windows
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import QUICK, StreamThread
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

# Longer than any test: only an error ends such a window.
ENDLESS_S = 600.0


class CountingRunner(LocalRunner):
    """Remembers the tasks that it ran, and their outcomes."""

    def __init__(self, settings):
        super().__init__(settings)
        self.tasks = []
        self.outcomes = []

    def __call__(self, tasks):
        self.tasks += tasks
        for outcome in super().__call__(tasks):
            self.outcomes.append(outcome)
            yield outcome


@pytest.fixture
def start_stream(pipeline, leases, topic):
    """Start a stream over a runner, with windows of a length."""
    leases.set_desired(topic, DesiredState(mode=TopicMode.STREAMING))

    def start(window_s, most_windows=1, **changes):
        settings = pipeline.settings.model_copy(update={**QUICK, "stream_window_s": window_s, **changes})
        runner = CountingRunner(settings)
        executor = RunnerExecutor(settings, runner, runner.cancel, Broker(settings), Windows(lambda: most_windows))
        return StreamThread(Pipeline(settings, pipeline.graph_file), topic, executor=executor), runner

    return start


def wait_for(pipeline, second, documents):
    wait_until(lambda: pipeline.doc_ids(second) == Counter(documents), f"{documents} were not drained")


def test_one_task_drains_documents_as_they_arrive_until_it_is_fenced_and_the_next_continues(
    pipeline, topic, second, start_stream, leases
):
    pipeline.send(topic, ["a"], partition=0)
    pipeline.send(topic, ["b"], partition=1)
    stream, runner = start_stream(ENDLESS_S)
    ids = [transactional_id(LiveLane.of(pipeline.graph).group, topic, partition) for partition in (0, 1)]

    with stream:
        wait_for(pipeline, second, "ab")
        pipeline.send(topic, ["c"], partition=0)
        wait_for(pipeline, second, "abc")
        pipeline.send(topic, ["d"], partition=1)
        wait_for(pipeline, second, "abcd")
        assert len(runner.tasks) == 1, "one task drained them all"

        Broker(pipeline.settings).fence(topic, ids)
        pipeline.send(topic, ["e"], partition=0)
        wait_for(pipeline, second, "abcde")
        assert len(runner.tasks) == 2, "the first task lost its place, and the second drained the rest"

        stream.stop.set()
        Broker(pipeline.settings).fence(topic, ids)
        pipeline.send(topic, ["f"], partition=0)

    assert pipeline.doc_ids(second) == Counter("abcde")
    leases.set_desired(topic, DesiredState())
    assert pipeline.drain(topic, "run-1").recovered_ranges == 0, "the stream recorded all that it drained"
    assert pipeline.doc_ids(second) == Counter("abcdef")
    pipeline.check_ledger_tiles(topic)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == 6


def test_a_window_drains_a_partition_in_which_nothing_waited_when_it_opened(pipeline, topic, second, start_stream):
    pipeline.send(topic, ["a"], partition=0)
    stream, runner = start_stream(ENDLESS_S)

    with stream:
        try:
            wait_for(pipeline, second, "a")
            pipeline.send(topic, ["b"], partition=1)
            wait_for(pipeline, second, "ab")
            assert len(runner.tasks) == 1, "the window that was open drained it"
        finally:
            stream.stop.set()
            group = LiveLane.of(pipeline.graph).group
            Broker(pipeline.settings).fence(topic, [transactional_id(group, topic, 0)])
            pipeline.send(topic, ["c"], partition=0)  # its transaction is refused, which ends the window


def test_many_short_windows_drain_every_document_once_and_all_are_counted(pipeline, topic, second, start_stream):
    documents = [f"doc-{number}" for number in range(6)]
    stream, runner = start_stream(0.3)

    with stream:
        for number, document in enumerate(documents):
            pipeline.send(topic, [document], partition=number % 2)
            wait_for(pipeline, second, documents[: number + 1])

    assert any(task.window_s for task in runner.tasks)
    pipeline.check_ledger_tiles(topic)
    entries = pipeline.entries(topic)
    assert sum(entry.tally.records for entry in entries) == len(documents)
    drained = [outcome for outcome in runner.outcomes if outcome.end > outcome.start]
    assert sum(entry.seconds for entry in entries) == pytest.approx(sum(outcome.busy_s for outcome in drained))
    assert all(0 < outcome.busy_s < outcome.seconds for outcome in drained), "to wait for a record is no work"


def test_a_backlog_is_drained_in_bounded_ranges(pipeline, topic, second, start_stream):
    documents = [f"doc-{number}" for number in range(20)]
    pipeline.send(topic, documents)
    stream, runner = start_stream(ENDLESS_S, chunk_records=5, stream_budget=10)

    with stream:
        wait_for(pipeline, second, documents)

    assert [(task.window_s, task.offsets) for task in runner.tasks] == [(0.0, ((0, 0, 10),)), (0.0, ((0, 10, 20),))]


def test_while_no_window_is_free_a_stream_drains_in_bounded_ranges(pipeline, topic, second, start_stream):
    stream, runner = start_stream(ENDLESS_S, most_windows=0)

    with stream:
        pipeline.send(topic, ["a"])
        wait_for(pipeline, second, "a")

    assert [task.window_s for task in runner.tasks] == [0.0]
