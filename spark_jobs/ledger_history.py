"""What the ledger tells of the past, as a Spark table: ``… spark_jobs/ledger_history.py --by topic|run|day``."""

from __future__ import annotations

import argparse
import json
import sys

from pyspark.sql import DataFrame, SparkSession

from pipestream.ledger import Ledger
from pipestream.settings import load_settings
from spark_jobs.delta_session import delta_session

GROUPS = {
    "topic": "lane, topic",
    "run": "lane, run_id, topic",
    "day": "lane, date_format(entered_at, 'yyyy-MM-dd') AS day",
}


def history(spark: SparkSession, entries_uri: str, by: str) -> DataFrame:
    """Return entries summed up per topic, run or day."""
    spark.read.format("delta").load(entries_uri).createOrReplaceTempView("entries")
    columns = GROUPS[by]
    return spark.sql(
        f"""SELECT {columns}, count(*) AS ranges, sum(`end` - start) AS offsets, sum(records) AS records,
                   sum(dead_letters) AS dead_letters, count_if(kind = 'recovered') AS recovered,
                   round(sum(seconds), 3) AS seconds, max(entered_at) AS last_entered_at
            FROM entries GROUP BY ALL ORDER BY ALL"""  # noqa: S608 - the columns are the constants above
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=sorted(GROUPS), default="topic")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    arguments = parser.parse_args()
    spark = delta_session("ledger history")
    try:
        found = history(spark, Ledger(load_settings()).entries_uri, arguments.by)
        if arguments.json:
            for row in found.toLocalIterator():
                print(json.dumps(row.asDict(), default=str))  # noqa: T201 - the job's answer
        else:
            found.show(1_000, truncate=False)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
