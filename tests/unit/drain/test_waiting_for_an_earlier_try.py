from __future__ import annotations

import pytest

from pipestream.drain.request import DrainRequest
from pipestream.drain.run import _acquire
from pipestream.graph.model import Graph
from pipestream_testing.leases import FlakyLeaseStore

TOPIC = "intake.files"
TTL_S = 3.0


class SlowLeaseStore(FlakyLeaseStore):
    """Says that leases outlive their TTL by far, as Consul does, and lets go of one when it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0

    def longest_expiry_s(self, ttl_s: float) -> float:
        return 21.0

    def wait_free(self, topic: str, slot: int, timeout_s: float) -> bool:
        self.waited_s = timeout_s
        self.release(self._held[topic, slot])
        return True


def test_the_lease_of_an_earlier_try_is_waited_out_for_as_long_as_the_store_may_take():
    store = SlowLeaseStore()
    store.acquire(f"{TOPIC}@g", 0, "run-1@elsewhere:1", TTL_S)
    request = DrainRequest(Graph("g", "main", ()), TOPIC, "run-1", 10)

    lease = _acquire(store, request, 0, "run-1@here:2", TTL_S)

    assert lease.holder == "run-1@here:2"
    assert store.waited_s == pytest.approx(21.0, abs=1.0)
