"""Whether the driver of a drain shows Spark's pages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

DRIVER = """
from pipestream_spark.runner import drain_session

session = drain_session("pages")
print("pages:", session.sparkContext.uiWebUrl)
session.stop()
"""


@pytest.mark.parametrize(("options", "pages"), [("", "None"), ("--conf spark.ui.enabled=true", "http://")])
def test_a_driver_shows_its_pages_only_if_spark_is_configured_so(options, pages):
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": f"--master local[1] {options} pyspark-shell"}

    done = subprocess.run(
        [sys.executable, "-"], input=DRIVER, env=environment, capture_output=True, text=True, check=False, timeout=400
    )

    assert f"pages: {pages}" in done.stdout, done.stderr
