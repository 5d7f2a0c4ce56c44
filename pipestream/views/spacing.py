"""Places on a line that keep their order and a distance from each other."""

from __future__ import annotations

from collections.abc import Sequence


def spread(wanted: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Return the places nearest to the wanted ones (least squares) that are far enough apart.

    Without the distances, each place only has to be at or behind the one before it. That is isotonic regression: places
    that would be out of order share their mean (pool adjacent violators).

    :param distances: from each place to the next one, at least; one fewer than places.
    """
    offsets, at = [], 0.0
    for distance in (0.0, *distances):
        at += distance
        offsets.append(at)
    pools: list[tuple[float, int]] = []  # mean, and how many places share it
    for place, offset in zip(wanted, offsets, strict=True):
        mean, count = place - offset, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
