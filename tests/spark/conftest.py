from __future__ import annotations

import pytest

from pipestream.testing.pipeline import Pipeline


@pytest.fixture
def pipeline(settings, unique, tmp_path, request):
    template = request.config.rootpath / "tests" / "data" / "exactly_once.yaml"
    file = tmp_path / f"{unique}.yaml"
    file.write_text(template.read_text().replace("UNIQUE", unique))
    made = Pipeline(settings, file)
    made.create_topics()
    return made


@pytest.fixture
def spark_env(stack, config_file):
    return {**stack.environment(), "PIPESTREAM_CONFIG": str(config_file)}
