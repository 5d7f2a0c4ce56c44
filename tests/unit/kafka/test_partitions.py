from __future__ import annotations

import pytest

from pipestream.kafka.partitions import partition_of

# Of the Java client: org.apache.kafka.common.utils.Utils.murmur2 in Kafka's own tests.
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", HASHES)
def test_a_key_means_the_partition_that_kafkas_clients_choose(key):
    for partitions in (1, 2, 7, 1_000):
        assert partition_of(key, partitions) == (HASHES[key] & 0x7FFFFFFF) % partitions


def test_an_empty_key_means_a_partition_too():
    assert 0 <= partition_of(b"", 5) < 5
