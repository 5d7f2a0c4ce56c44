"""In which order test files run, and which of them run in one process.

The order makes a whole run short. Files that need no servers come first, while servers are fetched or built. Then come
the folders with long files: one that starts last runs alone at the end, while the other processes have nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdist.scheduler import Scheduling

# Most files in here take half a minute and more, most of the others seconds.
LONG_FOLDERS = ("tests/dags/", "tests/spark/", "tests/faults/", "tests/web/", "tests/ui/")
# What is started once per process and takes long: an API server of Airflow; a Kafka, PostgreSQL and Consul to break.
ONE_PROCESS = {
    "web": ("tests/web/",),
    "breakable": ("tests/faults/test_servers_killed.py", "tests/faults/test_accepted_log_killed.py"),
}


# Whether a file is long and whether it needs Consul, in the order in which such files run. Consul takes longest to
# build where there is none: what is long and does without it runs meanwhile. What needs it comes next, before the
# short files: it is long, or waits for leases to run out.
PHASES = [(True, False), (True, True), (False, True), (False, False)]


def turn_of(file: str, needs: Collection[str]) -> tuple[bool, int, int]:
    """Return when a file runs, as a key to sort by.

    :param needs: the fixtures and marks of its tests. Both are called consul: the fixture of the Consul that test runs
        share, and the mark of a file that starts one of its own.
    """
    ranks = [rank for rank, folder in enumerate(LONG_FOLDERS) if file.startswith(folder)]
    return "stack" in needs, PHASES.index((bool(ranks), "consul" in needs)), min(ranks, default=0)


def group_of(node_id: str) -> str:
    """Return the name of what runs in one process with a test: its file, or files that share a server."""
    file = node_id.partition("::")[0]
    return next((name for name, starts in ONE_PROCESS.items() if file.startswith(starts)), file)


def make_scheduler(config: Any, log: Any) -> Scheduling:
    """Return xdist's scheduler by files, with our groups."""
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)
