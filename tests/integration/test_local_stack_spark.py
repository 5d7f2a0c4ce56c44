"""The Spark of the local stack: its own cluster, our Python, Delta without the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipestream.local.jars import delta_jars

pytestmark = [pytest.mark.stack, pytest.mark.spark]

_JOB = """
import json, os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()

def where(batches):
    import pipestream, pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable], "folder": [os.getcwd()]})

rows = spark.range(4, numPartitions=4).mapInArrow(where, "python string, folder string").collect()
spark.range(10).write.format("delta").mode("overwrite").save(sys.argv[1])
count = spark.read.format("delta").load(sys.argv[1]).count()
result = {"master": spark.sparkContext.master, "python": sorted({r.python for r in rows}),
          "folders": sorted({r.folder for r in rows}), "count": count}
open(sys.argv[2], "w").write(json.dumps(result))
"""


# Not in every test run: that drains run on the workers with our Python, and jobs with Delta, is shown there apart.
@pytest.mark.slow
def test_a_submitted_job_runs_on_the_workers_with_our_python_and_delta(stack, spark_cluster, tmp_path):
    job = tmp_path / "job.py"
    job.write_text(_JOB)
    result = tmp_path / "result.json"
    settings = {
        "spark.jars": ",".join(str(jar) for jar in delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": tmp_path.as_uri(),
    }
    argv = [Path(sys.executable).with_name("spark-submit"), "--master", spark_cluster]
    argv += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]

    done = subprocess.run(
        [*argv, job, tmp_path / "table", result],
        env=stack.environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(result.read_text())
    assert seen["master"].startswith("spark://127.0.0.1:")
    assert seen["python"] == [sys.executable]
    assert seen["count"] == 10
    work = os.fspath(stack.spec.folder / "data" / "spark" / "spark-worker-")
    assert all(folder.startswith(work) for folder in seen["folders"])
