"""Sum up the ledger in Spark, for spark-submit. The code is in ``pipestream_spark/ledger_history.py``."""

from __future__ import annotations

import sys

from pipestream_spark.ledger_history import main

if __name__ == "__main__":
    sys.exit(main())
