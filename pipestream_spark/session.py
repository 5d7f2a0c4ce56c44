"""What every Spark session of the product has in common."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

_PAGES = "spark.ui.enabled"


def session_builder(app_name: str) -> SparkSession.Builder:
    """Return a builder of sessions that leave nothing in the folder they are started in, and open no port for pages.

    Spark creates a folder for tables even if there are none. Our jobs have no tables, so the setting names a folder
    that already exists.
    """
    folder_of_tables = Path(tempfile.gettempdir()).absolute().as_uri()
    builder = SparkSession.builder.appName(app_name).config("spark.sql.warehouse.dir", folder_of_tables)
    # Whoever reaches Spark's pages can stop its jobs, without a login. So they are only there for those who want them.
    return builder if _is_configured(_PAGES) else builder.config(_PAGES, "false")


def _is_configured(name: str) -> bool:
    """Tell whether spark-submit was given an option, by ``--conf`` or in ``spark-defaults.conf``."""
    SparkContext._ensure_initialized()  # starts the JVM, which has read both; what a session sets would overrule them
    return SparkConf().contains(name)
