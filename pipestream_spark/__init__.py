"""The Spark side of Pipestream: jobs that run the product's work on Spark."""

from __future__ import annotations

from pipestream.extras import needs_extra

with needs_extra("spark"):
    import pyspark  # noqa: F401 - every module of this package needs it; here the error can say what to install
