"""A topic that is not there is waited for, a bounded number of times, or created where the settings say so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipestream.drain.backfill import Backfill
from pipestream.drain.check import find_reason_to_skip
from pipestream.drain.estimate import estimate_request
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.errors import TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.leases import DesiredState, TopicMode
from pipestream.leases.none import NoLeaseStore
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import QUICK, StreamThread, set_mode
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack


@pytest.fixture
def missing(settings, unique, tmp_path, graph_text):
    """A graph whose topics nobody has made, and settings that wait a moment only."""
    file = tmp_path / f"{unique}.yaml"
    file.write_text(graph_text)
    return Pipeline(settings.model_copy(update={"topic_attempts": 3, "topic_backoff_s": 0.01}), file)


class PatientBroker(Broker):
    """A broker on which something happens each time that a topic is looked for."""

    def __init__(self, settings, then):
        super().__init__(settings)
        self.looks = 0
        self._then = then

    def identify(self, topic):
        self.looks += 1
        if self.looks == 2:
            self._then()
        return super().identify(topic)


def drain(pipeline, topic, leases=None, broker=None):
    request = DrainRequest(pipeline.graph, topic, "run-1", 1_000)
    runner = LocalRunner(pipeline.settings)
    return run_drain(request, pipeline.settings, runner, leases=leases or NoLeaseStore(), broker=broker)


def test_a_run_fails_for_good_when_the_topic_is_missing_at_every_look(missing, topic):
    broker = PatientBroker(missing.settings, then=lambda: None)

    with pytest.raises(TopicMissing, match=f"topic {topic} does not exist"):
        drain(missing, topic, broker=broker)

    assert broker.looks == 3


def test_a_run_drains_a_topic_that_is_made_while_it_waits(missing, topic, second):
    def make() -> None:
        missing.create_topics()
        missing.send(topic, ["a"])

    report = drain(missing, topic, broker=PatientBroker(missing.settings, make))

    assert (report.status, report.records) == ("drained", 1)
    assert missing.doc_ids(second) == {"a": 1}


def test_stopping_the_topic_ends_the_wait(missing, topic):
    missing.settings = missing.settings.model_copy(update={"topic_attempts": 100})
    leases = NoLeaseStore()
    broker = PatientBroker(missing.settings, lambda: leases.set_desired(topic, DesiredState(started=False)))

    report = drain(missing, topic, leases, broker)

    assert report.status == "skipped"
    assert f"{topic} is stopped" in report.reason
    assert broker.looks == 2


def test_with_auto_create_a_run_makes_the_topics_of_its_graph_as_applying_it_would(missing, topic):
    settings = missing.settings = missing.settings.model_copy(update={"auto_create": True})

    report = drain(missing, topic)

    assert report.status == "empty"
    existing = TopicAdmin(settings).existing()
    wanted = {spec.name: spec.partitions for spec in required_topics(missing.graph, settings)}
    assert {name: existing.get(name) for name in wanted} == wanted


def test_the_check_before_a_drain_creates_the_topics_too(missing, topic):
    settings = missing.settings.model_copy(update={"auto_create": True})
    request = DrainRequest(missing.graph, topic, "run-1", 1_000)

    assert find_reason_to_skip(settings, request) == f"nothing to drain in {topic}"


@pytest.mark.parametrize(("auto_create", "said"), [(True, "a run creates it"), (False, "apply the graph before a run")])
@pytest.mark.parametrize("backfill", [None, Backfill("again", since=datetime(2026, 1, 1, tzinfo=UTC))])
def test_an_estimate_of_a_missing_topic_is_nothing_and_says_why(missing, topic, auto_create, said, backfill):
    settings = missing.settings.model_copy(update={"auto_create": auto_create})
    request = DrainRequest(missing.graph, topic, "run-1", 1_000, backfill)

    estimate = estimate_request(request, settings)

    assert (estimate.offsets, estimate.seconds) == (0, None)
    assert f"{topic}: 0 offsets, because it does not exist; {said}" in estimate.describe()
    assert topic not in TopicAdmin(settings).existing()


# -- topics that a drain writes to ---------------------------------------------------------------


class WatchedBroker(Broker):
    """A broker on which something happens when the outputs are looked for a second time."""

    def __init__(self, settings, then=lambda: None):
        super().__init__(settings)
        self.looks = 0
        self._then = then

    def missing(self, topics):
        self.looks += 1
        if self.looks == 2:
            self._then()
        return super().missing(topics)


@pytest.fixture
def half_made(missing, topic, second):
    """The same graph with all its topics but one that it writes to. A document waits in its intake."""
    missing.create_topics()
    TopicAdmin(missing.settings).delete([second])
    missing.send(topic, ["a"])
    return missing


def dead_letters(pipeline, unique):
    return [
        found
        for name in TopicAdmin(pipeline.settings).existing()
        if name.startswith("dlq.") and unique in name
        for found in pipeline.read(name)
    ]


def test_a_run_waits_for_a_topic_that_it_writes_to_and_then_drains(half_made, topic, second, unique):
    report = drain(half_made, topic, broker=WatchedBroker(half_made.settings, half_made.create_topics))

    assert (report.status, report.records) == ("drained", 1)
    assert half_made.doc_ids(second) == {"a": 1}
    assert dead_letters(half_made, unique) == []


def test_a_run_whose_output_topic_stays_away_fails_and_leaves_the_document_where_it_is(
    half_made, topic, second, unique
):
    broker = WatchedBroker(half_made.settings)

    with pytest.raises(TopicMissing, match=f"topic {second} does not exist"):
        drain(half_made, topic, broker=broker)

    assert broker.looks == 3
    assert half_made.group_offsets(topic) == {}
    assert dead_letters(half_made, unique) == []
    half_made.create_topics()
    assert drain(half_made, topic).records == 1
    assert half_made.doc_ids(second) == {"a": 1}


def test_with_auto_create_a_run_makes_the_topics_that_it_writes_to(half_made, topic, second):
    half_made.settings = half_made.settings.model_copy(update={"auto_create": True})

    assert drain(half_made, topic).records == 1

    assert half_made.doc_ids(second) == {"a": 1}


def test_a_run_with_nothing_to_drain_does_not_wait_for_topics_that_it_would_write_to(missing, topic, second):
    missing.create_topics()
    TopicAdmin(missing.settings).delete([second])
    broker = WatchedBroker(missing.settings)

    assert drain(missing, topic, broker=broker).status == "empty"
    assert broker.looks == 0


@pytest.fixture
def streaming(missing, topic):
    """The graph of missing topics, to be streamed."""
    set_mode(missing.settings, topic, TopicMode.STREAMING)
    return Pipeline(missing.settings.model_copy(update=QUICK), missing.graph_file)


def test_a_stream_ends_before_a_module_works_when_an_output_topic_is_missing(streaming, topic, second):
    streaming.create_topics()
    TopicAdmin(streaming.settings).delete([second])
    streaming.send(topic, ["a"])

    with StreamThread(streaming, topic) as stream:
        ended = stream.join()

    assert isinstance(ended.error, TopicMissing)
    assert second in ended.reason
    assert ended.tally.records == 0


@pytest.mark.parametrize("is_topic_there", [True, False])
def test_a_stream_creates_what_is_missing_where_the_settings_say_so(streaming, topic, second, is_topic_there):
    creating = Pipeline(streaming.settings.model_copy(update={"auto_create": True}), streaming.graph_file)
    specs = required_topics(creating.graph, creating.settings)
    if is_topic_there:
        TopicAdmin(creating.settings).create([spec for spec in specs if spec.name == topic])

    with StreamThread(creating, topic):
        wait_until(lambda: {spec.name for spec in specs} <= TopicAdmin(creating.settings).existing().keys())
        creating.send(topic, ["a"])
        wait_until(lambda: creating.doc_ids(second) == {"a": 1})
