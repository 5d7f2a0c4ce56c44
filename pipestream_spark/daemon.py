"""The process that Spark forks its Python workers from, with everything imported that a drain needs.

A new worker is then ready in a tenth of a second instead of in most of a second. Nothing is used here, only imported:
clients of Kafka, of the object store and of Delta do not survive a fork.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import pipestream_spark.worker  # noqa: F401
from pipestream.drain import sub_ranges, window  # noqa: F401
from pipestream.drain.garbage import collect_rarely

if __name__ == "__main__":
    # What is imported stays. Without it, looking for reference cycles takes a tenth less of a drain's CPU time, and the
    # workers share its memory longer.
    gc.freeze()
    collect_rarely()
    manager()
