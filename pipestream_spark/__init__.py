"""The Spark side of Pipestream: jobs that run the product's work on Spark."""

from __future__ import annotations

from importlib.util import find_spec

from pipestream.extras import needs_extra

with needs_extra("spark"):
    # Looked for, not imported: DAGs are parsed with a module of this package, and the import takes half a second.
    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
