"""Keep the ledger fast: ``spark-submit … spark_jobs/ledger_upkeep.py [--retention-hours 168]``.

OPTIMIZE, VACUUM (never shorter than the table's own retention) and a checkpoint, for plans and entries.
``pipestream/ledger/upkeep.py`` says what these are for. On disk Spark does it. On S3 the job does the same work as
``pipestream ledger upkeep``, with conditional commits: the only log store that Delta has for S3 in Spark is made for a
single driver, and would overwrite a commit that a run makes at the same moment.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipestream.errors import TerminalError
from pipestream.ledger import Ledger
from pipestream.ledger.upkeep import SHORTEST_RETENTION_HOURS, Tidied, checkpoint, retention_hours, tidy
from pipestream.settings import load_settings
from pipestream.telemetry.logs import setup_logging
from pipestream_spark.delta_session import delta_session

log = logging.getLogger("pipestream.upkeep")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--retention-hours", type=int, default=SHORTEST_RETENTION_HOURS)
    arguments = parser.parse_args()
    settings = load_settings()
    setup_logging(settings)
    ledger = Ledger(settings)
    found = ledger.delta_tables()
    try:
        hours = {name: retention_hours(table, arguments.retention_hours) for name, table in found.items()}
    except TerminalError as error:
        parser.error(str(error))
    if ledger.is_on_disk and found:
        spark = delta_session("ledger upkeep")
        try:
            done = [tidy_with_spark(spark, name, table, hours[name]) for name, table in found.items()]
        finally:
            spark.stop()
    else:
        done = [tidy(name, table, hours[name]) for name, table in found.items()]
    print(json.dumps([asdict(each) for each in done]))  # noqa: T201 - the job's answer
    return 0


def tidy_with_spark(spark: SparkSession, name: str, table: DeltaTable, hours: int) -> Tidied:
    """Optimize, vacuum and checkpoint one table on disk."""
    place = f"delta.`{table.table_uri}`"
    metrics = spark.sql(f"OPTIMIZE {place}").collect()[0]["metrics"]
    spark.sql(f"VACUUM {place} RETAIN {hours} HOURS")
    joined, made = metrics["numFilesRemoved"], metrics["numFilesAdded"]
    log.info("%s: %d files joined into %d", name, joined, made)
    return Tidied(name, joined, made, hours, checkpoint(table))


if __name__ == "__main__":
    sys.exit(main())
