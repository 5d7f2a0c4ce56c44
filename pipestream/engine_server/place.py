"""The place of a worker among the processes of one engine, and the names under which it is known."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from pipestream.leases.names import name_holder

_RUN = "engine"


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """Which worker this is. One that is started by hand is the only one."""

    index: int = 0
    workers: int = 1
    peers: tuple[str, ...] = ()
    """The own address of each worker, host:port, by index. Theirs are fixed for as long as their parent lives."""
    dead_holders: tuple[str, ...] = ()
    """The names under which workers of the same parent held leases that are dead for certain."""

    @property
    def address(self) -> str:
        """Return where this worker takes calls from its peers; empty for one that has none."""
        return self.peer(self.index)

    def peer(self, index: int) -> str:
        return self.peers[index] if index < len(self.peers) else ""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> WorkerPlace:
        """Read what ``to_text`` wrote, which a parent gives to its worker."""
        fields = json.loads(text)
        return cls(int(fields["index"]), int(fields["workers"]), tuple(fields["peers"]), tuple(fields["dead_holders"]))


def holder_of(address: str) -> str:
    """Return the name under which this process holds leases: it says where its peers reach it."""
    return f"{name_holder(_RUN)} {address}".strip()


def address_of(holder: str) -> str:
    """Return the address in the name of a holder; empty if there is none."""
    return holder.partition(" ")[2]


def is_dead_predecessor(holder: str, address: str) -> bool:
    """Tell whether a holder was a process of this machine at this address, and is dead.

    Two processes cannot have one address, but a process that is stopping and the next one may share it for a moment.
    So its pid has to be gone, too.
    """
    own, other = holder_of(address), holder
    if not address or other == own or address_of(other) != address:
        return False
    (own_host, _, _), (host, _, pid) = own.split(" ")[0].rpartition(":"), other.split(" ")[0].rpartition(":")
    return host == own_host and pid.isdigit() and not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def holder_of_child(pid: int, address: str) -> str:
    """Return the name under which a child of this process held leases."""
    own, _, _ = name_holder(_RUN).rpartition(":")
    return f"{own}:{pid} {address}".strip()
