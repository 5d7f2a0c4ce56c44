"""A Spark session with Delta. Drains do not need one: they write the ledger without the JVM."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pipestream_spark.session import session_builder


def delta_session(app_name: str) -> SparkSession:
    """Return a session with Delta's SQL; its jar comes with ``--jars`` or ``--packages`` of spark-submit."""
    return (
        session_builder(app_name)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        # The history's days are in UTC, wherever the job runs.
        .config("spark.sql.session.timeZone", "UTC")
        # The ledger's tables are small: with the defaults every query runs fifty tasks or more.
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
