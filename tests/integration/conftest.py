"""What tests of the small graph of ``pipeline`` have in common: its topics, its leases, its dead letters, commands."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from pipestream.deployment.versions import GraphVersions
from pipestream.leases import open_lease_store
from pipestream.objects.store import open_store
from pipestream.retention import delete, expire
from pipestream.retention.references import find_referring_topics
from pipestream_testing.commands import Run, make_run
from pipestream_testing.engines import Engine, engine
from pipestream_testing.letters import Letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pipestream.leases import LeaseStore
    from pipestream.objects.store import ObjectStore
    from pipestream.settings import Settings
    from pipestream_testing.pipeline import Pipeline


@pytest.fixture(scope="module")
def live(module_settings: Settings) -> Iterator[Engine]:
    """An engine for all tests of a file, each of which applies graphs of its own."""
    with engine(module_settings, engine_name=f"e{uuid.uuid4().hex[:8]}") as running:
        yield running


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


@pytest.fixture
def make_letters(settings: Settings, unique: str, tmp_path: Path, graph_text: str) -> Callable[..., Letters]:
    """Makes a pipeline whose second node fails on bad documents, with some settings changed."""

    def make(**changes: object) -> Letters:
        return Letters(settings.model_copy(update=changes), unique, tmp_path, graph_text)

    return make


@pytest.fixture
def letters_of_own_topics(
    make_letters: Callable[..., Letters], settings: Settings, unique: str, monkeypatch: pytest.MonkeyPatch
) -> Letters:
    """The pipeline with its graph applied, and a retention that looks at the topics of this test alone."""
    made = make_letters()
    with closing(GraphVersions(settings)) as versions:
        versions.save(made.pipeline.graph, applied_by="test")

    def own_topics(*arguments: Any) -> list[str]:
        # Other tests share the broker; their topics come and go, and keep records for as long as they like.
        return [topic for topic in find_referring_topics(*arguments) if unique in topic]

    monkeypatch.setattr(expire, "find_referring_topics", own_topics)
    monkeypatch.setattr(delete, "find_referring_topics", own_topics)
    return made


@pytest.fixture
def store(settings: Settings) -> Iterator[ObjectStore]:
    with open_store(settings.store_uri, settings) as opened:
        yield opened


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, config_file: Path) -> Run:
    """Runs ``pipestream`` with arguments, on the test's ``settings``."""
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))
    return make_run(capsys)


@pytest.fixture
def graph_file(graph_text: str, tmp_path: Path) -> Path:
    file = tmp_path / "graph.yaml"
    file.write_text(graph_text)
    return file


@pytest.fixture
def applied(run: Run, graph_file: Path) -> Path:
    """The graph's file, applied."""
    assert run("graph", "apply", graph_file).code == 0
    return graph_file


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder of four documents, one of which fails and one of which takes the fused edge."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in ("a", "b", "bad-one", "fused-one"):
        (folder / f"{name}.txt").write_text(name)
    return folder
