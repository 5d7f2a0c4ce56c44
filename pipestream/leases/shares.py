"""How many slots each of several processes is to hold: one rule for stream workers and for the engine's processes."""

from __future__ import annotations

from collections.abc import Mapping


def fair_shares(slots: int, room: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Return how many slots each worker is to hold: as even as their room allows.

    What does not divide goes to those that hold most already, so that a share never moves without need.

    :param room: how many slots each worker may hold.
    :param held: how many it holds now.
    """
    shares = dict.fromkeys(room, 0)
    left = slots
    while left > 0 and (open_ := [worker for worker in room if shares[worker] < room[worker]]):
        if left < len(open_):
            for worker in sorted(open_, key=lambda worker: (-held.get(worker, 0), worker))[:left]:
                shares[worker] += 1
            break
        step = min(left // len(open_), *(room[worker] - shares[worker] for worker in open_))
        for worker in open_:
            shares[worker] += step
        left -= step * len(open_)
    return shares
