from __future__ import annotations

import pytest

from pipestream.objects.store import open_store
from pipestream.settings import Settings


@pytest.fixture
def store(tmp_path):
    uri = (tmp_path / "objects").as_uri()
    with open_store(uri, Settings(store_uri=uri)) as store:
        yield store
