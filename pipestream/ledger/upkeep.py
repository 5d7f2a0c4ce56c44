"""Keep a ledger's tables quick: join small files, delete old ones, write a checkpoint.

Every commit of a run is a small file, and opening a table takes longer the more of them there are. Heads are app
transactions, so none of this moves them, and runs may continue meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from pipestream.errors import LedgerBusy, RequestInvalid, SettingsInvalid
from pipestream.ledger.delta import explained

# Delta's own safety limit: a reader or writer that started before may still need files younger than this.
SHORTEST_RETENTION_HOURS = 168

_RETENTION = "delta.deletedFileRetentionDuration"
_INTERVAL = re.compile(r"interval (\d+) (hour|day|week)s?")
_HOURS = {"hour": 1, "day": 24, "week": 168}


@dataclass(frozen=True, slots=True)
class Tidied:
    """What upkeep did to one table."""

    table: str
    files_joined: int
    files_made: int
    retention_hours: int
    """Files that no version has needed for longer than this are gone."""
    version: int
    """The version that the checkpoint holds."""


def retention_hours(table: DeltaTable, asked_hours: int) -> int:
    """Return how long files are kept after the last version that needs them: never shorter than the table wants.

    :raises RequestInvalid: what is asked for is not safe.
    :raises SettingsInvalid: the table's own retention cannot be read.
    """
    if asked_hours < SHORTEST_RETENTION_HOURS:
        raise RequestInvalid(
            f"a retention of {asked_hours} hours is too short: a run under way may still need files that old; "
            f"at least {SHORTEST_RETENTION_HOURS} are kept"
        )
    own = table.metadata().configuration.get(_RETENTION)
    if own is None:
        return asked_hours
    found = _INTERVAL.fullmatch(own.strip().lower())
    if found is None:
        raise SettingsInvalid(f"{table.table_uri}: {_RETENTION} is {own!r}; expected such as 'interval 30 days'")
    return max(asked_hours, int(found[1]) * _HOURS[found[2]])


def tidy(name: str, table: DeltaTable, asked_hours: int = SHORTEST_RETENTION_HOURS) -> Tidied:
    """Do all of it without Spark, on disk or on S3, safe next to runs that write.

    :raises LedgerBusy: others wrote at the same moment.
    """
    hours = retention_hours(table, asked_hours)
    with explained(table.table_uri):
        try:
            joined = table.optimize.compact()
            # In full, as Spark does it: a commit that lost a race leaves a file that no version knows.
            table.vacuum(retention_hours=hours, dry_run=False, full=True)
        except CommitFailedError as error:
            raise LedgerBusy(f"upkeep of {name}: {str(error).splitlines()[0]}") from error
    version = checkpoint(table)
    return Tidied(name, joined["numFilesRemoved"], joined["numFilesAdded"], hours, version)


def checkpoint(table: DeltaTable) -> int:
    """Write the table's state as one file, delete log files that have outlived their retention; return the version."""
    with explained(table.table_uri):
        table.update_incremental()
        table.create_checkpoint()
        table.cleanup_metadata()
    return table.version()
