"""Streams for tests: in a thread of the test, or in a process of their own to be killed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import Self

from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.leases import DesiredState, LeaseKeeper, TopicMode, open_lease_store
from pipestream.leases.names import lease_name, name_holder
from pipestream.settings import Settings
from pipestream.stream.executors import Executor, WarmExecutor
from pipestream.stream.recorder import Recorder
from pipestream.stream.topic_stream import StreamEnded, TopicStream
from pipestream_testing.pipeline import Pipeline

QUICK = {"stream_record_s": 0.5, "stream_follow_s": 0.2, "stream_window_s": 0.5}
"""Settings with which a test waits less."""


def set_mode(settings: Settings, topic: str, mode: TopicMode, **state: object) -> None:
    """Say how a topic is drained."""
    with closing(open_lease_store(settings)) as leases:
        leases.set_desired(topic, DesiredState(mode=mode, **state))  # type: ignore[arg-type]


def stream_slot(
    pipeline: Pipeline,
    topic: str,
    stop: threading.Event,
    *,
    slot: int = 0,
    find_graph: Callable[[], Graph | None] | None = None,
    executor: Executor | None = None,
    run_id: str = "stream",
) -> StreamEnded:
    """Lease a slot as soon as it is free, and stream it until there is a reason to end."""
    settings, name = pipeline.settings, lease_name(topic, pipeline.graph.graph_id)
    with closing(open_lease_store(settings)) as leases, Recorder(settings) as recorder:
        while not leases.wait_free(name, slot, 1.0):
            if stop.is_set():
                raise AssertionError(f"{name} slot {slot} was never free")
        lease = leases.acquire(name, slot, name_holder(run_id), settings.lease_ttl_s)
        with LeaseKeeper(leases, lease) as keeper:
            stream = TopicStream(
                topic,
                find_graph or (lambda: pipeline.graph),
                keeper,
                leases,
                settings,
                executor or WarmExecutor(settings),
                recorder,
                run_id=run_id,
                broker=Broker(settings),
            )
            return stream.run(stop)


class StreamThread:
    """A stream in a thread of the test; leaving the ``with`` block stops it."""

    def __init__(self, pipeline: Pipeline, topic: str, **options: object) -> None:
        self.stop = threading.Event()
        self.ended: StreamEnded | None = None
        self._raised: BaseException | None = None

        def work() -> None:
            try:
                self.ended = stream_slot(pipeline, topic, self.stop, **options)  # type: ignore[arg-type]
            except BaseException as error:
                self._raised = error

        self._thread = threading.Thread(target=work, name=f"test stream {topic}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop.set()
        self.join()

    def join(self) -> StreamEnded:
        """Wait until the stream has ended, and return why."""
        self._thread.join(180)
        assert not self._thread.is_alive(), "the stream does not end"
        if self._raised is not None:
            raise self._raised
        assert self.ended is not None
        return self.ended
