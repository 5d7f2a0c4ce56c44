"""The history in the ledger, as Spark tables: ``… spark_jobs/ledger_history.py --by topic run day``."""

from __future__ import annotations

import argparse
import json
import sys

from pyspark.sql import DataFrame, SparkSession

from pipestream.ledger import Ledger
from pipestream.settings import load_settings
from pipestream_spark.delta_session import delta_session

GROUPS = {
    "topic": "lane, topic",
    "run": "lane, run_id, topic",
    "day": "lane, date_format(entered_at, 'yyyy-MM-dd') AS day",
}
COLUMNS = [
    "lane",
    "topic",
    "run_id",
    "kind",
    "start",
    "end",
    "records",
    "dead_letters",
    "seconds",
    "entered_at",
]


def entries(spark: SparkSession, ledger: Ledger) -> DataFrame:
    """Return the ledger's entries. From S3 they come through this process: PySpark has no client for it."""
    if ledger.is_on_disk:
        return spark.read.format("delta").load(ledger.entries_uri).select(COLUMNS)
    return spark.createDataFrame(ledger.entries_table(COLUMNS))


def history(found: DataFrame, by: str) -> DataFrame:
    """Return entries summed up per topic, run or day (of UTC)."""
    found.createOrReplaceTempView("entries")
    columns = GROUPS[by]
    # An entry that moved a head by hand drained no record, however far apart its ends are.
    return found.sparkSession.sql(
        f"""SELECT {columns}, count(*) AS ranges,
                   sum(CASE WHEN kind = 'rebaselined' THEN 0 ELSE `end` - start END) AS offsets,
                   sum(records) AS records, sum(dead_letters) AS dead_letters,
                   count_if(kind = 'recovered') AS recovered, round(sum(seconds), 3) AS seconds,
                   max(entered_at) AS last_entered_at
            FROM entries GROUP BY ALL ORDER BY ALL"""  # noqa: S608 - the columns are the constants above
    )


def show(found: DataFrame, by: str, *, as_json: bool) -> None:
    if not as_json:
        found.show(1_000, truncate=False)
        return
    for row in found.toLocalIterator():
        print(json.dumps({"by": by, **row.asDict()}, default=str))  # noqa: T201 - the job's answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=sorted(GROUPS), nargs="+", default=["topic"])
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of tables")
    arguments = parser.parse_args()
    ledger = Ledger(load_settings())
    if "entries" not in ledger.delta_tables():
        print(f"the ledger {ledger.root} has no entries yet", file=sys.stderr)  # noqa: T201 - the job's answer
        return 0
    spark = delta_session("ledger history")
    try:
        found = entries(spark, ledger).cache()
        for by in arguments.by:
            show(history(found, by), by, as_json=arguments.json)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
