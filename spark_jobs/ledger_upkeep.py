"""Keep the ledger small with Spark, for spark-submit. The code is in ``pipestream_spark/ledger_upkeep.py``."""

from __future__ import annotations

import sys

from pipestream_spark.ledger_upkeep import main

if __name__ == "__main__":
    sys.exit(main())
