"""A browser on the pages in Airflow, which show a small pipeline on real servers."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipestream import apply_graph
from pipestream_testing.chromium import run_browser
from pipestream_testing.pages import Visit, visit
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.registered_dags import register_dags
from pipestream_testing.web_server import WebServer, web_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from pipestream.local import Stack
    from pipestream.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pipeline(session_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The graph of ``exactly_once.yaml``, applied. Three documents are drained, and two of them fail."""
    unique = f"t{uuid.uuid4().hex[:8]}"
    file = tmp_path_factory.mktemp("graphs") / f"{unique}.yaml"
    text = (REPOSITORY / "tests" / "data" / "exactly_once.yaml").read_text().replace("UNIQUE", unique)
    # Airflow has backfills only for what has a schedule.
    file.write_text(f'schedule: "@hourly"\n{text}')
    made = Pipeline(session_settings, file)
    apply_graph(file, applied_by="ada", settings=session_settings)
    made.send(f"intake.{unique}", ["good", "bad-one", "bad-two"])
    made.drain(f"intake.{unique}", "run-1")
    made.drain(f"pipestream.{unique}.second", "run-2")
    return made


@pytest.fixture(scope="session")
def web(stack: Stack, pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Airflow's API server, which also serves its pages, with the graph file and the DAG of the pipeline."""
    folder = tmp_path_factory.mktemp("web")
    changes = {"graphs_folder": pipeline.graph_file.parent, "web_timeout_s": 60.0, "web_action_s": 300.0}
    settings = pipeline.settings.model_copy(update=changes)
    register_dags(stack, settings, folder)
    with web_server(stack, settings, folder) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Playwright keeps an event loop running in this thread, in which tests of other files could not start one."""
    with run_browser() as running:
        yield running


@pytest.fixture
def page(browser: Browser, web: WebServer) -> Iterator[Visit]:
    """A page of an administrator who has signed in. At the end of a test its console has no errors."""
    with visit(browser, web) as made:
        yield made
        assert made.complaints == []
