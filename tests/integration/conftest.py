"""What tests of the small graph of ``pipeline`` have in common: its topics and its leases."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pipestream.leases import open_lease_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.leases import LeaseStore
    from pipestream.testing.pipeline import Pipeline


@pytest.fixture
def topic(unique: str) -> str:
    """The topic of the graph's datasource."""
    return f"intake.{unique}"


@pytest.fixture
def second(unique: str) -> str:
    """The topic of the graph's second node."""
    return f"pipestream.{unique}.second"


@pytest.fixture
def leases(pipeline: Pipeline) -> Iterator[LeaseStore]:
    with closing(open_lease_store(pipeline.settings)) as store:
        yield store
