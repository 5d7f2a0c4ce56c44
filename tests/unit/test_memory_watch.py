from __future__ import annotations

import mmap
import os
import random

import pytest

from pipestream_testing.memory import MemoryWatch


@pytest.mark.parametrize("leak_bytes", [0, 1_024])
def test_a_leak_is_told_from_noise_and_from_a_buffer_that_reached_its_size(leak_bytes):
    chance, watch = random.Random(3), MemoryWatch(os.getpid())
    for number in range(1, 9):
        step = 3_000_000 if number > 2 else 0
        noise = chance.randrange(-100_000, 100_000)
        watch.samples.append((number * 250, 100_000_000 + step + noise + leak_bytes * number * 250))

    assert abs(watch.bytes_per_call() - leak_bytes) < 400


def test_a_sample_is_the_memory_of_the_process():
    watch = MemoryWatch(os.getpid())
    watch.look(1)
    # New pages of its own: the allocator may have free memory of earlier tests, which the process holds already.
    with mmap.mmap(-1, 30_000_000) as kept:
        kept.write(b"x" * len(kept))
        watch.look(1_001)

        assert watch.bytes_per_call() == pytest.approx(len(kept) / 1_000, rel=0.2)
