"""Share slots fairly between workers. Every worker decides for itself, from the same facts and by the same rule.

There is no leader. Each worker sees who else works and who holds which slot, computes everybody's share, gives up what
it holds beyond its own, and acquires free slots up to it. The shares add up to all slots (or to all room that the
workers have), so together the workers give up exactly what the others lack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from pipestream.leases.shares import fair_shares


@dataclass(frozen=True, slots=True, order=True)
class SlotKey:
    """One slot of a topic in a lane."""

    name: str
    """What is leased; see ``leases/names.py``."""
    slot: int

    def __str__(self) -> str:
        return f"{self.name} slot {self.slot}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a worker sees when it decides."""

    workers: Mapping[str, int]
    """Every worker that is alive, and how many slots it may hold. The one that decides is among them."""
    wanted: Sequence[SlotKey]
    """Every slot that is to be drained."""
    holders: Mapping[SlotKey, str]
    """Who holds a slot: a worker, or someone else such as a batch run."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a worker does about what it sees."""

    give_up: tuple[SlotKey, ...] = ()
    acquire: tuple[SlotKey, ...] = ()
    """In the order to try them."""


def decide(me: str, mine: Sequence[SlotKey], seen: Sighting, keep: Collection[SlotKey] = ()) -> Decision:
    """Return which slots a worker gives up, and which it tries to acquire.

    A slot that nobody wants drained any more (stopped, in batch mode, beyond the replicas) is always given up.

    :param mine: the slots that the worker holds, in the order in which it acquired them. The last are given up first.
    :param keep: slots that stay where they are, because giving them up would undo what an operator asked of them.
    """
    wanted = set(seen.wanted)
    ended = [slot for slot in mine if slot not in wanted]
    held_by_me = [slot for slot in mine if slot in wanted]
    holders = {slot: holder for slot, holder in seen.holders.items() if slot in wanted and slot not in held_by_me}
    shared = [slot for slot in seen.wanted if holders.get(slot, me) in seen.workers]
    held = Counter(holder for holder in holders.values() if holder in seen.workers and holder != me)
    held[me] = len(held_by_me)
    share = fair_shares(len(shared), seen.workers, held)[me]
    movable = [slot for slot in held_by_me if slot not in keep]
    excess = min(max(0, len(held_by_me) - share), len(movable))
    free = [slot for slot in shared if slot not in holders and slot not in held_by_me]
    lack = max(0, share - len(held_by_me))
    return Decision(tuple(ended + movable[len(movable) - excess :]), tuple(_rotate(free, me)[:lack]))


def _rotate(slots: Sequence[SlotKey], me: str) -> list[SlotKey]:
    """Return slots in another order for each worker, so that workers that start together try different ones."""
    first = crc32(me.encode()) % len(slots) if slots else 0
    return [*slots[first:], *slots[:first]]
