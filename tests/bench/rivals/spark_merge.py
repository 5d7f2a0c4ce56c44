"""Merge rows into a Delta table with Spark, as a ledger without ours would: ``spark_merge.py FOLDER ROWS MERGES``.

Run by spark-submit. It fills the table first, and prints the seconds of each merge.
"""

import sys
import time

from pyspark.sql import SparkSession

folder, rows, merges = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
session = (
    SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
COLUMNS = "'intake.a' as topic, int(id % 4) as partition, int(id / 4) * 10 as start, int(id / 4) * 10 + 10 as end"
session.range(rows).selectExpr(*COLUMNS.split(", ")).write.format("delta").save(folder)
for number in range(merges + 1):
    new = session.range(rows + 4 * number, rows + 4 * number + 4).selectExpr(*COLUMNS.split(", "))
    new.createOrReplaceTempView("new")
    started = time.perf_counter()
    session.sql(
        f"MERGE INTO delta.`{folder}` as old USING new "
        "ON old.topic = new.topic AND old.partition = new.partition AND old.start = new.start "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    if number:  # the first one compiles
        print(time.perf_counter() - started)
assert session.read.format("delta").load(folder).count() == rows + 4 * (merges + 1)
