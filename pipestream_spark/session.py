"""What every Spark session of the product has in common."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession


def session_builder(app_name: str) -> SparkSession.Builder:
    """Return a builder of sessions that leave nothing in the folder they are started in.

    Spark makes a folder for tables even where there are none, and none of our jobs has any: what it is told to make is
    there already.
    """
    folder_of_tables = Path(tempfile.gettempdir()).absolute().as_uri()
    return SparkSession.builder.appName(app_name).config("spark.sql.warehouse.dir", folder_of_tables)
