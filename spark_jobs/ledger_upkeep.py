"""Keep the ledger quick: ``spark-submit … spark_jobs/ledger_upkeep.py [--retention-hours 168]``.

Every commit of a run is a small file. This job joins them (OPTIMIZE), deletes those that nobody can need any more
(VACUUM, never shorter than the table's own retention) and writes a checkpoint, for plans and entries. Heads are app
transactions of the table, so none of this moves them, and runs may go on meanwhile.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipestream.ledger import Ledger
from pipestream.settings import load_settings
from spark_jobs.delta_session import delta_session

log = logging.getLogger("pipestream.upkeep")

# Delta's own safety limit: a reader or writer that started before may still need files younger than this.
SHORTEST_RETENTION_HOURS = 168


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--retention-hours", type=int, default=SHORTEST_RETENTION_HOURS)
    arguments = parser.parse_args()
    if arguments.retention_hours < SHORTEST_RETENTION_HOURS:
        parser.error(f"--retention-hours must be at least {SHORTEST_RETENTION_HOURS}")
    ledger = Ledger(load_settings())
    spark = delta_session("ledger upkeep")
    try:
        done = [tidy(spark, ledger, uri, arguments.retention_hours) for uri in ledger.table_uris()]
    finally:
        spark.stop()
    print(json.dumps(done))  # noqa: T201 - the job's answer
    return 0


def tidy(spark: SparkSession, ledger: Ledger, uri: str, retention_hours: int) -> dict[str, object]:
    """Optimize, vacuum and checkpoint one table; return what changed."""
    table = f"delta.`{uri}`"
    metrics = spark.sql(f"OPTIMIZE {table}").collect()[0]["metrics"]
    spark.sql(f"VACUUM {table} RETAIN {retention_hours} HOURS")
    found: DeltaTable = ledger.open_table(uri)
    found.create_checkpoint()
    log.info("%s: %d files joined into %d", uri, metrics["numFilesRemoved"], metrics["numFilesAdded"])
    return {
        "table": uri.rsplit("/", 1)[-1],
        "files_joined": metrics["numFilesRemoved"],
        "files_made": metrics["numFilesAdded"],
        "version": found.version(),
    }


if __name__ == "__main__":
    sys.exit(main())
