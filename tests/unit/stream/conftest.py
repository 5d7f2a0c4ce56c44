"""Workers on real leases in a folder, whose streams only pretend to drain."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress

import pytest

from pipestream.errors import PipestreamError
from pipestream.graph.load import load_graph
from pipestream.leases.file import FileLeaseStore
from pipestream.ledger import Tally
from pipestream.settings import Settings
from pipestream.stream.shares import SlotKey
from pipestream.stream.topic_stream import StreamEnded
from pipestream.stream.wanted import StreamSpec
from pipestream.stream.worker import StreamWorker
from pipestream_testing.waiting import wait_until

GRAPH = """
graph: g
cluster: main
datasources:
  - {id: files, account: acme, entry: first}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
"""


class PretendStream:
    """Runs until it is stopped. An error of its topic in ``world.errors`` makes it fail instead."""

    trouble = ""
    in_flight = 0
    failures = 0

    def __init__(self, world, spec, keeper):
        self.world, self.spec, self.keeper = world, spec, keeper
        self.key = SlotKey(keeper.lease.name, keeper.lease.slot)
        self.positions = {0: 0}

    @property
    def stalled_s(self):
        return self.world.stalled_s

    def cancel(self, why):
        self.world.cancelled.append((self.key, why))

    def run(self, stop):
        if error := self.world.errors.get(self.spec.topic):
            if not isinstance(error, PipestreamError):
                raise error
            return StreamEnded(str(error), Tally(), error)
        with self.world.guard:
            assert self.key not in self.world.running, f"two drain {self.key}"
            self.world.running[self.key] = self.spec
            self.world.opened[self.key] += 1
        try:
            while not stop.wait(0.01) and not self.keeper.lost.is_set():
                self.positions = {0: self.positions[0] + 1}
            self.world.go_on.wait(60)
        finally:
            with self.world.guard:
                del self.world.running[self.key]
        return StreamEnded("it was asked to end", Tally())


class World:
    """What is wanted, who works, and what runs."""

    def __init__(self, folder, graph):
        self.graph = graph
        self.settings = Settings(leases="file", lease_folder=folder, reconcile_s=0.1, lease_ttl_s=60)
        self.store = FileLeaseStore(self.settings)
        self.wanted = {}
        self.errors = {}
        self.running = {}
        self.opened = Counter()
        self.cancelled = []
        self.stalled_s = 0.0
        self.guard = threading.Lock()
        self.go_on = threading.Event()
        """Cleared: a stream that is stopped hangs."""
        self.go_on.set()
        self._workers = {}

    def want(self, *topics, replicas=1, graph_hash="h1"):
        self.wanted = {
            SlotKey(f"{topic}@g", slot): StreamSpec(topic, replicas, graph_hash, self.graph)
            for topic in topics
            for slot in range(replicas)
        }

    def start(self, name, *, topics=None, max_leases=None, is_sharing=True, **changes):
        """Start a worker; with ``topics``, one that drains these alone."""
        settings = self.settings.model_copy(update=changes)
        worker = StreamWorker(
            settings,
            self.store,
            lambda: {key: spec for key, spec in self.wanted.items() if topics is None or spec.topic in topics},
            lambda *given: PretendStream(self, *given),
            name=name,
            max_leases=max_leases,
            is_sharing=is_sharing,
        )
        stop = threading.Event()
        thread = threading.Thread(target=worker.run, args=[stop], name=name)
        thread.start()
        self._workers[name] = worker, stop, thread
        return worker

    def stop(self, name):
        _, stop, thread = self._workers.pop(name)
        stop.set()
        thread.join(60)
        assert not thread.is_alive()

    def stop_all(self):
        for name in list(self._workers):
            with suppress(AssertionError):
                self.stop(name)

    def counts(self):
        held = Counter(found.holder for found in self.store.assignments() if found.holder)
        return {name: held[name] for name in self._workers}

    def wait_counts(self, **counts):
        wait_until(lambda: self.counts() == counts and len(self.running) == sum(counts.values()), f"{counts}")


@pytest.fixture
def world(tmp_path):
    file = tmp_path / "g.yaml"
    file.write_text(GRAPH)
    world = World(tmp_path / "leases", load_graph(file))
    yield world
    world.go_on.set()
    world.stop_all()
