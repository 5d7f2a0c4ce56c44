from __future__ import annotations

import pytest


@pytest.fixture
def spark_env(stack, config_file):
    return {**stack.environment(), "PIPESTREAM_CONFIG": str(config_file)}
