"""What every Spark session of the product has in common."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession


def session_builder(app_name: str) -> SparkSession.Builder:
    """Return a builder of sessions that leave nothing in the folder they are started in.

    Spark creates a folder for tables even if there are none. Our jobs have no tables, so the setting names a folder
    that already exists.
    """
    folder_of_tables = Path(tempfile.gettempdir()).absolute().as_uri()
    return SparkSession.builder.appName(app_name).config("spark.sql.warehouse.dir", folder_of_tables)
