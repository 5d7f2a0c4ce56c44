"""Records of the next chunks are begun while the last ones of a chunk finish. A model stands for the broker."""

from __future__ import annotations

import random
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream.drain.concurrency import Workers
from pipestream.drain.overlap import InFlight
from pipestream.drain.range_task import transactional_id
from pipestream.drain.task import drain_ranges
from pipestream.errors import ModuleDown, ModuleFailed
from pipestream.graph.model import Datasource, Graph, Node, NodeType
from pipestream.graph.proto import to_binary
from pipestream.kafka.records import OutputRecord
from pipestream.modules.declare import declare_module
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.broker import ModelBroker
from pipestream_testing.made import make_task
from pipestream_testing.waiting import wait_until

TOPIC, DEAD, OUT = "intake.a", "dlq.intake.a", "pipestream.main.happy-end"
WIDTH = 4
CHUNK = 5
DOCUMENTS = 60


class Module:
    """What the module of the graph does to each document, and which of them it has seen begin and end."""

    def __init__(self):
        self.begun, self.ended = [], []
        self.act = {}

    def process(self, document):
        number = int(document.doc_id)
        self.begun.append(number)
        self.act.get(number, lambda: None)()
        self.ended.append(number)
        return document


module = Module()


@declare_module(is_concurrent=True)
def process(document, _context):
    return module.process(document)


@pytest.fixture(autouse=True)
def _new_module():
    global module
    module = Module()


@pytest.fixture
def released():
    """Let slow documents go at the end of a test, whatever became of it."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def broker():
    made = ModelBroker()
    for topic in (TOPIC, DEAD, OUT):
        made.create(topic, 1)
    for number in range(DOCUMENTS):
        stream = PipeStream(document=PipeDoc(doc_id=f"{number:03}"))
        made.append(OutputRecord(TOPIC, stream.document.doc_id.encode(), stream.SerializeToString()), 0)
    return made


@pytest.fixture
def drain(broker, tmp_path):
    def run(**settings):
        node = Node("n", "main", module=f"python:{__name__}:process", concurrency=WIDTH)
        end = Node("happy-end", "main", node_type=NodeType.SINK)
        graph = Graph("g", "main", (node, end), datasources=(Datasource("a", "acme", "n"),))
        task = make_task(
            TOPIC,
            "n",
            topic_id=broker.identify(TOPIC).topic_id,
            offsets=((0, 0, DOCUMENTS),),
            datasource_id="a",
            transactional_ids=(transactional_id("group", TOPIC, 0),),
            graph=b64encode(to_binary(graph)).decode(),
        )
        chosen = {"store_uri": (tmp_path / "store").as_uri(), "chunk_records": CHUNK, "failing_share": 1.0}
        (outcome,) = drain_ranges(task, Settings(**chosen | settings), broker=broker)
        return outcome

    return run


@pytest.fixture
def drain_behind(drain):
    """Drain in a thread, so that the test sees it at work."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda **settings: pool.submit(drain, **settings)


def sent(broker, topic=OUT):
    return [int(record.key) for record in broker.all_records(topic)]


def test_a_slow_record_holds_back_neither_its_chunk_nor_the_next_ones(broker, drain_behind, released):
    module.act[1] = lambda: released.wait(60)

    draining = drain_behind()
    wait_until(lambda: len(module.ended) >= 5 * CHUNK)
    seen = sent(broker)
    released.set()

    assert seen == [], "the chunk of the slow record is the first one to be committed"
    assert draining.result().error == ""
    assert sent(broker) == [*range(DOCUMENTS)]


def test_outputs_stay_in_the_order_of_the_records(broker, drain):
    chance = random.Random(7)
    pauses = [chance.random() / 200 for _ in range(DOCUMENTS)]
    module.act = {number: lambda pause=pause: time.sleep(pause) for number, pause in enumerate(pauses)}

    outcome = drain()

    assert (outcome.error, outcome.end) == ("", DOCUMENTS)
    assert outcome.tally.records == DOCUMENTS
    assert sent(broker) == [*range(DOCUMENTS)]


def test_a_document_that_fails_behind_a_slow_one_is_a_dead_letter_and_the_others_pass(broker, drain_behind, released):
    def fail():
        raise ModuleFailed("bad document")

    module.act = {1: lambda: released.wait(60), 2 * CHUNK: fail}

    draining = drain_behind()
    wait_until(lambda: 3 * CHUNK in module.ended)
    released.set()

    assert draining.result().error == ""
    assert sent(broker, DEAD) == [2 * CHUNK]
    assert sent(broker) == [number for number in range(DOCUMENTS) if number != 2 * CHUNK]


def test_an_error_that_ends_the_drain_lets_the_chunks_before_it_be_committed(broker, drain_behind, drain, released):
    fails_at, has_failed = 3 * CHUNK + 1, threading.Event()

    def fail():
        has_failed.set()
        raise ModuleDown("the module", "it is gone", 0)

    module.act = {1: lambda: released.wait(60), fails_at: fail}

    draining = drain_behind()
    assert has_failed.wait(60)
    released.set()
    outcome = draining.result()

    assert "it is gone" in outcome.error
    assert outcome.end == 3 * CHUNK
    assert sent(broker) == [*range(3 * CHUNK)]
    assert len(module.begun) < DOCUMENTS, "no further record is begun after the error"

    module.act = {}
    assert drain().error == ""
    assert sent(broker) == [*range(DOCUMENTS)]


def test_without_any_room_for_bytes_in_flight_chunks_still_pass_one_by_one(broker, drain):
    assert drain(in_flight_bytes=1).error == ""
    assert sent(broker) == [*range(DOCUMENTS)]


def test_behind_a_slow_record_only_so_many_bytes_wait(broker, drain_behind, released):
    size_bytes = len(broker.all_records(TOPIC)[0].value)
    module.act[0] = lambda: released.wait(60)

    draining = drain_behind(in_flight_bytes=2 * CHUNK * size_bytes)
    wait_until(lambda: len(module.ended) >= CHUNK - 1)
    released.set()

    assert draining.result().error == ""
    # The slow one's own chunk, and at most one that was begun early.
    assert {number for number in module.ended[: module.ended.index(0)] if number >= 2 * CHUNK} == set()


# The workers alone.


def test_results_that_wait_for_a_slow_item_count_and_further_items_wait_while_there_are_too_many(released):
    in_flight = InFlight(300)
    begun = []

    def work(item):
        begun.append(item)
        if item == "slow":
            released.wait(60)
        return item

    with ThreadPoolExecutor(2) as pool:
        workers = Workers(pool, 2, in_flight, lambda _: 100)
        first, second = workers.begin(work, ["slow", "quick"]), workers.begin(work, range(20))
        wait_until(lambda: in_flight.bytes >= 300)
        assert len(begun) <= 2 + 2 + 1, "one of the two threads waits for the slow item"
        released.set()
        assert first.wait() == ["slow", "quick"]
        in_flight.add(-first.size_bytes)
        assert second.wait() == [*range(20)]
        in_flight.add(-second.size_bytes)
    assert in_flight.bytes == 0


def test_an_error_stops_later_chunks_and_no_earlier_one(released):
    begun = []

    def work(item):
        begun.append(item)
        if item == "slow":
            released.wait(60)
        if item == "bad":
            raise ValueError("bad")
        return item

    with ThreadPoolExecutor(2) as pool:
        workers = Workers(pool, 2)
        first = workers.begin(work, ["slow", *range(10)])
        second = workers.begin(work, ["bad", "never"])
        third = workers.begin(work, ["never", "never"])
        wait_until(lambda: "bad" in begun)
        released.set()
        assert first.wait() == ["slow", *range(10)]
        with pytest.raises(ValueError, match="bad"):
            second.wait()
        assert third.entering_s == 0
    assert "never" not in begun
