"""Airflow's API server with our plugin, on a small pipeline through which documents have gone."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipestream import apply_graph
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.web_server import WebServer, web_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.local import Stack
    from pipestream.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pipeline(session_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The graph of ``exactly_once.yaml``, applied. Four documents are drained, one waits at the first node."""
    unique = f"t{uuid.uuid4().hex[:8]}"
    file = tmp_path_factory.mktemp("graphs") / f"{unique}.yaml"
    file.write_text((REPOSITORY / "tests" / "data" / "exactly_once.yaml").read_text().replace("UNIQUE", unique))
    made = Pipeline(session_settings, file)
    apply_graph(file, applied_by="ada", settings=session_settings)
    made.send(f"intake.{unique}", ["a", "b", "bad-one", "fused-one"])
    made.drain(f"intake.{unique}", "run-1")
    made.drain(f"pipestream.{unique}.second", "run-2")
    made.send(f"intake.{unique}", ["waiting"])
    return made


@pytest.fixture(scope="session")
def web(stack: Stack, pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """The API server, with the pipeline's graph file in the folder of graphs."""
    folder = tmp_path_factory.mktemp("web")
    changes = {
        "graphs_folder": pipeline.graph_file.parent,
        "web_timeout_s": 60.0,
        "web_action_s": 300.0,
        "approval_letters": 0,
    }
    with web_server(stack, pipeline.settings.model_copy(update=changes), folder) as running:
        yield running


@pytest.fixture(scope="session")
def pipeline_id(pipeline: Pipeline) -> str:
    return pipeline.graph.graph_id
