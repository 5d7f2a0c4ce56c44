"""A graph's ``start_at`` decides where the first drain of a topic begins, and is never asked again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.graph.load import load_graph
from pipestream.kafka.broker import Broker
from pipestream.leases.names import lease_name
from pipestream.leases.none import NoLeaseStore
from pipestream.leases.sql import SqlLeaseStore
from pipestream.leases.store import DesiredState
from pipestream.ledger import EntryKind
from pipestream.offsets.start import StartUnknown
from pipestream.topics.admin import TopicAdmin
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


class Starts:
    """A pipeline whose graph says where to start, and may say something else later."""

    def __init__(self, settings, unique, folder, graph_text):
        self.settings = settings
        self.intake = f"intake.{unique}"
        self.second = f"pipestream.{unique}.second"
        self.happy_end = f"pipestream.{unique}.happy-end"
        self._text = graph_text
        self._file = folder / f"{unique}.yaml"
        self._runs = 0
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._file.write_text(self._text)
        self.pipeline = Pipeline(settings, self._file)
        self.pipeline.create_topics()

    def hours_ago(self, hours):
        return self._now - timedelta(hours=hours)

    def say(self, *, datasource="", first="", second=""):
        """Let the graph have these policies; none where empty."""
        text = self._text
        for place, policy in (
            ("    entry: first\n", datasource),
            ("  - id: first\n", first),
            ("  - id: second\n", second),
        ):
            assert text.count(place) == 1
            text = text.replace(place, f'{place}    start_at: "{policy}"\n' if policy else place)
        self._file.write_text(text)
        self.pipeline.graph = load_graph(self._file)

    def drain(self, topic, **options):
        self._runs += 1
        request = DrainRequest(self.pipeline.graph, topic, f"run-{self._runs}", 1_000, **options)
        return run_drain(request, self.settings, LocalRunner(self.settings), leases=NoLeaseStore())

    def heads(self, topic):
        partitions = Broker(self.settings).identify(topic).partitions
        return self.pipeline.ledger.heads(self.pipeline.graph.graph_id, topic, partitions)

    def skipped(self, topic):
        """Return how far each partition was passed over."""
        found = [entry for entry in self.pipeline.entries(topic) if entry.kind is EntryKind.SKIPPED]
        return {entry.range.partition: (entry.range.start, entry.range.end) for entry in found}


@pytest.fixture
def starts(settings, unique, tmp_path, graph_text):
    return Starts(settings.model_copy(update={"chunk_records": 10}), unique, tmp_path, graph_text)


@pytest.fixture
def filled(starts, unique):
    """Records of 5, 3 and 1 hours ago on partition 0, one of 3 hours ago on partition 1, and a group that read some."""
    for hours, partition in ((5, 0), (3, 0), (1, 0), (3, 1)):
        starts.pipeline.send(starts.intake, [f"{partition}-{hours}h"], partition, starts.hours_ago(hours))
    Broker(starts.settings).commit(f"{unique}-loaders", starts.intake, {0: 2, 1: 0})
    return starts


POLICIES = [
    pytest.param("", {}, {"0-5h", "0-3h", "0-1h", "1-3h"}, id="none"),
    pytest.param("earliest", {}, {"0-5h", "0-3h", "0-1h", "1-3h"}, id="earliest"),
    pytest.param("latest", {0: (0, 3), 1: (0, 1)}, set(), id="latest"),
    pytest.param("committed:UNIQUE-loaders", {0: (0, 2)}, {"0-1h", "1-3h"}, id="committed of a group"),
    pytest.param("PT4H", {0: (0, 1)}, {"0-3h", "0-1h", "1-3h"}, id="relative time"),
    pytest.param("TWO HOURS AGO", {0: (0, 2), 1: (0, 1)}, {"0-1h"}, id="absolute time"),
]


@pytest.mark.parametrize(("policy", "skipped", "taken"), POLICIES)
def test_a_datasources_policy_decides_where_its_first_drain_begins(filled, unique, policy, skipped, taken):
    two_hours_ago = filled.hours_ago(2).isoformat()
    filled.say(datasource=policy.replace("UNIQUE", unique).replace("TWO HOURS AGO", two_hours_ago))

    report = filled.drain(filled.intake)

    assert report.records == len(taken)
    assert filled.pipeline.doc_ids(filled.second) == dict.fromkeys(taken, 1)
    assert filled.skipped(filled.intake) == skipped
    assert filled.heads(filled.intake) == {0: 3, 1: 1}
    filled.pipeline.check_ledger_tiles(filled.intake)


@pytest.mark.parametrize(
    ("policy", "later"),
    [
        ("earliest", "latest"),
        ("latest", "earliest"),
        ("committed:UNIQUE-loaders", "committed:UNIQUE-loaders"),
        ("PT4H", "earliest"),
    ],
)
def test_a_second_drain_continues_where_the_first_began_whatever_the_policy_would_say_by_then(
    filled, unique, policy, later
):
    filled.say(datasource=policy.replace("UNIQUE", unique))
    filled.drain(filled.intake)
    taken = set(filled.pipeline.doc_ids(filled.second))
    skipped = filled.skipped(filled.intake)
    filled.pipeline.send(filled.intake, ["new-0"], 0)
    filled.pipeline.send(filled.intake, ["new-1"], 1)
    Broker(filled.settings).commit(f"{unique}-loaders", filled.intake, {0: 0, 1: 2})
    filled.say(datasource=later.replace("UNIQUE", unique))

    report = filled.drain(filled.intake)

    assert report.records == 2
    assert filled.pipeline.doc_ids(filled.second) == dict.fromkeys({*taken, "new-0", "new-1"}, 1)
    assert filled.skipped(filled.intake) == skipped
    filled.pipeline.check_ledger_tiles(filled.intake)


@pytest.fixture
def fed(starts, unique):
    """Two records on the topic of the second node, sent one after the other by two drains."""
    for doc_id in ("old", "young"):
        starts.pipeline.send(starts.intake, [doc_id], partition=0)
        starts.drain(starts.intake)
    old, young = sorted(starts.pipeline.read(starts.second), key=lambda letter: letter.record.timestamp_ms)
    assert (old.doc_id, young.doc_id) == ("old", "young")
    assert old.record.timestamp_ms < young.record.timestamp_ms
    starts.time_of_young = datetime.fromtimestamp(young.record.timestamp_ms / 1000, UTC).isoformat()
    marks = Broker(starts.settings).watermarks(starts.second, [0, 1])
    behind_old = {p: mark.low for p, mark in marks.items()} | {old.record.partition: old.record.offset + 1}
    Broker(starts.settings).commit(f"{unique}-loaders", starts.second, behind_old)
    return starts


@pytest.mark.parametrize(
    ("policy", "taken"),
    [
        pytest.param("earliest", {"old", "young"}, id="earliest"),
        pytest.param("latest", set(), id="latest"),
        pytest.param("committed:UNIQUE-loaders", {"young"}, id="committed of a group"),
        pytest.param("PT0S", set(), id="relative time"),
        pytest.param("TIME OF YOUNG", {"young"}, id="absolute time"),
    ],
)
def test_a_nodes_policy_decides_where_the_first_drain_of_its_topic_begins_and_only_that(fed, unique, policy, taken):
    fed.say(second=policy.replace("UNIQUE", unique).replace("TIME OF YOUNG", fed.time_of_young))

    fed.drain(fed.second)
    fed.say(second="earliest")
    fed.pipeline.send(fed.intake, ["new"], partition=1)
    fed.drain(fed.intake)
    fed.drain(fed.second)

    assert fed.pipeline.doc_ids(fed.happy_end) == dict.fromkeys({*taken, "new"}, 1)
    fed.pipeline.check_ledger_tiles(fed.second)
    fed.pipeline.check_ledger_tiles(fed.intake)


def test_an_intake_topic_begins_where_its_datasource_says_and_not_where_its_entry_node_does(filled):
    filled.say(datasource="PT2H", first="latest")

    filled.drain(filled.intake)

    assert filled.pipeline.doc_ids(filled.second) == {"0-1h": 1}


def test_a_run_may_begin_somewhere_else_than_the_graph_says(filled):
    filled.say(datasource="latest")

    filled.drain(filled.intake, start_at="PT2H")

    assert filled.pipeline.doc_ids(filled.second) == {"0-1h": 1}


def test_a_topic_that_began_at_latest_is_not_begun_again_by_a_run_that_found_nothing(filled):
    filled.say(datasource="latest")
    assert filled.drain(filled.intake).status == "empty"
    filled.pipeline.send(filled.intake, ["new"], partition=0)

    assert filled.drain(filled.intake).records == 1

    assert filled.pipeline.doc_ids(filled.second) == {"new": 1}
    assert filled.heads(filled.intake) == {0: 4, 1: 1}
    kinds = [entry.kind for entry in filled.pipeline.entries(filled.intake) if entry.range.partition == 0]
    assert kinds == [EntryKind.SKIPPED, EntryKind.DRAINED]
    filled.pipeline.check_ledger_tiles(filled.intake)


def test_all_partitions_begin_with_the_first_run_even_those_that_another_slot_drains(filled):
    filled.say(datasource="latest")
    TopicAdmin(filled.settings).grow({filled.intake: 4})  # the last two are empty
    leases = SqlLeaseStore(filled.settings)
    leases.set_desired(filled.intake, DesiredState(replicas=2))
    other = leases.acquire(lease_name(filled.intake, filled.pipeline.graph.graph_id), 1, "worker@elsewhere:1", 600)
    request = DrainRequest(filled.pipeline.graph, filled.intake, "slot-0", 1_000)
    run_drain(request, filled.settings, LocalRunner(filled.settings), leases=leases)
    leases.release(other)
    # After the run on slot 0, so they are not to be skipped.
    filled.pipeline.send(filled.intake, ["new"], partition=1)
    filled.pipeline.send(filled.intake, ["first"], partition=3)

    request = DrainRequest(filled.pipeline.graph, filled.intake, "both", 1_000)
    run_drain(request, filled.settings, LocalRunner(filled.settings), leases=leases)

    assert filled.pipeline.doc_ids(filled.second) == {"new": 1, "first": 1}
    filled.pipeline.check_ledger_tiles(filled.intake)
    leases.close()


@pytest.mark.parametrize("policy", ["latest", "earliest"])
def test_records_that_arrive_while_the_first_run_plans_are_not_missed(filled, monkeypatch, policy):
    ask_committed = Broker.committed

    def ask_while_records_arrive(broker, group, topic, partitions):
        found = ask_committed(broker, group, topic, partitions)
        filled.pipeline.send(topic, ["just now"])
        return found

    monkeypatch.setattr(Broker, "committed", ask_while_records_arrive)
    filled.drain(filled.intake, start_at=policy)
    monkeypatch.undo()
    filled.drain(filled.intake)

    assert filled.heads(filled.intake) == {0: 4, 1: 1}
    filled.pipeline.check_ledger_tiles(filled.intake)


def test_a_partition_that_is_added_later_is_drained_from_its_beginning(filled):
    filled.say(datasource="latest")
    filled.drain(filled.intake)
    TopicAdmin(filled.settings).grow({filled.intake: 3})
    filled.pipeline.send(filled.intake, ["first-of-2"], partition=2)

    filled.drain(filled.intake)

    assert filled.pipeline.doc_ids(filled.second) == {"first-of-2": 1}
    assert filled.skipped(filled.intake) == {0: (0, 3), 1: (0, 1)}
    filled.pipeline.check_ledger_tiles(filled.intake)


def test_a_policy_that_cannot_be_answered_begins_nothing_and_the_next_may_still_say_where(filled, unique):
    filled.say(datasource=f"committed:{unique}-nobody")
    with pytest.raises(StartUnknown, match=f"group {unique}-nobody has no committed offset"):
        filled.drain(filled.intake)
    assert filled.heads(filled.intake) == {}
    filled.say(datasource="PT2H")

    filled.drain(filled.intake)

    assert filled.pipeline.doc_ids(filled.second) == {"0-1h": 1}
