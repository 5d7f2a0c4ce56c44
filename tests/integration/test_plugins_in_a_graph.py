from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pipestream import OrderedReader, SourceTopic
from pipestream.documents.references import key_of
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.acme import install_acme

pytestmark = pytest.mark.stack

GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources:
  - {id: UNIQUE, account: acme, entry: shout, connector: {kind: acme-lines, file: lines.txt}}
nodes:
  - {id: shout, module: "acme:shout"}
  - {id: away, type: connector, engine: "acme-file://delivered.txt"}
edges:
  - {from: shout, to: away, transport: grpc, when: doc.search_metadata.title == "THIRD"}
"""


@pytest.fixture
def pipestream(tmp_path, config_file):
    """Runs the command line in a process that has the package installed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(install_acme(tmp_path)),
        "PIPESTREAM_CONFIG": str(config_file),
        "PIPESTREAM_SOURCES_FOLDER": str(tmp_path),
        "PIPESTREAM_PLUGIN_SECRETS": '{"acme.token": "open sesame"}',
    }

    def run(*arguments: str, **changes: str):
        command = [sys.executable, "-m", "pipestream.cli.main", *arguments, "--json"]
        return subprocess.run(
            command, env={**environment, **changes}, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def read_titles(settings, topic: str) -> list[str]:
    titles = []
    with (
        open_store(settings.store_uri, settings) as store,
        OrderedReader(settings, [SourceTopic.from_earliest(topic)], cutoff_ms=None) as reader,
    ):
        while not reader.is_live():
            for value in reader.poll().column("value").to_pylist():
                (data,) = store.get_many([key_of(PipeStream.FromString(value))])
                titles.append(PipeDoc.FromString(data).search_metadata.title)
    return titles


def test_a_graph_runs_with_the_plugins_of_another_package(pipestream, settings, unique, tmp_path):
    (tmp_path / "lines.txt").write_text("first\nsecond\nthird\n")
    file = tmp_path / "graph.yaml"
    file.write_text(GRAPH.replace("UNIQUE", unique))

    applied = pipestream("graph", "apply", str(file))
    ingested = pipestream("ingest", "-g", str(file), "-d", unique)
    drained = pipestream("drain", "-g", str(file), "-t", f"intake.{unique}")

    assert applied.returncode == 0, applied.stderr
    assert json.loads(ingested.stdout)["new"] == 3, ingested.stderr
    assert json.loads(drained.stdout)["records"] == 3, drained.stderr
    assert sorted(read_titles(settings, f"pipestream.{unique}.happy-end")) == ["FIRST", "SECOND"]
    (delivered,) = (tmp_path / "delivered.txt").read_text().splitlines()
    assert delivered.endswith("/away/1 THIRD")


def test_a_wrong_secret_fails_the_ingestion_and_is_not_shown(pipestream, unique, tmp_path):
    (tmp_path / "lines.txt").write_text("first\n")
    file = tmp_path / "graph.yaml"
    file.write_text(GRAPH.replace("UNIQUE", unique))
    assert pipestream("graph", "apply", str(file)).returncode == 0

    ingested = pipestream(
        "ingest", "-g", str(file), "-d", unique, PIPESTREAM_PLUGIN_SECRETS='{"acme.token": "hunter2"}'
    )

    assert ingested.returncode == 2
    assert "acme: the token is not right" in ingested.stderr
    assert "hunter2" not in ingested.stderr
