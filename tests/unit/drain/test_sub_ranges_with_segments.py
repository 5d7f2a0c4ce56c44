"""Sub-ranges whose documents go into segments, on a model of Kafka: stored before they are committed, and only once."""

from __future__ import annotations

import textwrap
from base64 import b64encode

import pytest

from pipestream.documents.fetch import fetch_documents
from pipestream.documents.references import place_of
from pipestream.drain.range_task import transactional_id
from pipestream.drain.sub_ranges import commit_sub_ranges, process_sub_range
from pipestream.errors import LeaseLost
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import OutputRecord
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.broker import ModelBroker
from pipestream_testing.made import make_task

TOPIC, OUT = "intake.s", "pipestream.main.b"
GRAPH = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a}]
    nodes:
      - {id: a, type: connector, storage: segments}
      - {id: b, type: connector}
    edges:
      - {from: a, to: b}
"""
NAMES = [f"doc-{number}" for number in range(30)]


class World:
    """A topic with documents, a task that drains it in three sub-ranges, and where the documents go."""

    def __init__(self, settings):
        self.settings = settings
        self.broker = ModelBroker()
        for topic in (TOPIC, OUT):
            self.broker.create(topic, 1)
        for name in NAMES:
            stream = PipeStream(document=PipeDoc(doc_id=name))
            self.broker.append(OutputRecord(TOPIC, name.encode(), stream.SerializeToString()))
        graph = check_graph_text(textwrap.dedent(GRAPH).encode(), "g.yaml").require()
        self.task = make_task(
            TOPIC,
            "a",
            datasource_id="s",
            offsets=((0, 0, len(NAMES)),),
            transactional_ids=(transactional_id("group", TOPIC, 0),),
            graph=b64encode(built(graph).content).decode(),
            sub_ranges=((0, 10), (10, 20), (20, 30)),
        )

    def process(self):
        numbers = range(len(self.task.sub_ranges))
        return [
            piece for number in numbers for piece in process_sub_range(self.task, number, self.settings, self.broker)
        ]

    def commit(self, pieces, check_lease=lambda: None):
        (outcome,) = commit_sub_ranges(self.task, pieces, self.settings, check_lease, self.broker)
        return outcome

    def places(self):
        return [place_of(PipeStream.FromString(record.value)) for record in self.broker.all_records(OUT)]


@pytest.fixture
def world(store):
    return World(Settings(store_uri=store.uri, chunk_records=10))


def test_segments_are_stored_before_their_results_are_handed_over(world, store):
    pieces = world.process()
    stored = set(store.list("segments"))

    assert len(stored) == 3
    assert world.places() == []
    assert world.commit(pieces).end == len(NAMES)
    assert {place.key for place in world.places()} == stored
    found = fetch_documents(store, world.places())
    assert [PipeDoc.FromString(data).doc_id for data in found] == NAMES


def test_a_second_try_of_both_stages_commits_the_rest_and_leaves_orphans_that_nothing_refers_to(world, store):
    commits = []

    def lose_the_lease_after_one_transaction():
        commits.append(1)
        if len(commits) > 1:
            raise LeaseLost(TOPIC, 0, "expired")

    first = world.commit(world.process(), lose_the_lease_after_one_transaction)
    before = {place.key for place in world.places()}
    second = world.commit(world.process())

    assert (first.end, second.end) == (10, len(NAMES))
    assert second.tally.records == len(NAMES)
    found = fetch_documents(store, world.places())
    assert [PipeDoc.FromString(data).doc_id for data in found] == NAMES
    assert len(before) == 1
    assert len(set(store.list("segments")) - {place.key for place in world.places()}) == 3
