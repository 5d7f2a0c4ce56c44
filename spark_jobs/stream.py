"""Drain the topics in streaming mode, for spark-submit. The code is in ``pipestream_spark/stream.py``."""

from __future__ import annotations

import sys

from pipestream_spark.stream import main

if __name__ == "__main__":
    sys.exit(main())
