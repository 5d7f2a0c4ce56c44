"""Parts of the product whose libraries are extras of the package, and what to install where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pipestream.errors import ExtraMissing

Extra = Literal["airflow", "spark", "consul", "s3", "live", "documents", "connectors", "local"]


@contextmanager
def needs_extra(extra: Extra) -> Iterator[None]:
    """Wrap imports of libraries that only one extra installs.

    :raises ExtraMissing: one of them is not installed. A missing module of our own is a bug, and its error is not
        changed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0].startswith("pipestream"):
            raise
        raise ExtraMissing(extra, error.name) from error
