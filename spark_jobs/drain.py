"""Drain one topic of a graph, for spark-submit. The code is in ``pipestream_spark/drain.py``."""

from __future__ import annotations

import sys

from pipestream_spark.drain import main

if __name__ == "__main__":
    sys.exit(main())
