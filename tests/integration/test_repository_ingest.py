from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipestream import faults
from pipestream.connectors.connector import Unreadable
from pipestream.connectors.folder import FolderConnector
from pipestream.connectors.ingest import ingest
from pipestream.documents.catalogue import Catalogue
from pipestream.errors import RequestInvalid, TopicMissing
from pipestream.graph.model import Connector, Datasource
from pipestream.samples.generate import write_sample_documents
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.pipeline import read_topic
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "data" / "pipedocs"

UPLOAD = """
import sys
from pipestream.documents.repository import Repository
from pipestream.graph.model import Datasource
from pipestream.settings import load_settings
from pipestream.wire import PipeDoc

with Repository(load_settings()) as repository:
    repository.upload(PipeDoc(doc_id="doc-1"), Datasource(sys.argv[1], "acme", "triage"))
"""


@pytest.fixture
def datasource(settings, unique, tmp_path):
    TopicAdmin(settings).create([TopicSpec(f"intake.{unique}", 2, None, Purpose.INTAKE)])
    (tmp_path / "files").mkdir()
    return Datasource(unique, "acme", "triage", connector=Connector("folder", {"path": str(tmp_path / "files")}))


def published(settings, datasource) -> int:
    """Return how many references the intake topic holds."""
    return len(read_topic(settings, f"intake.{datasource.datasource_id}"))


def test_a_folder_is_ingested_once_and_then_only_what_changed(settings, datasource, tmp_path):
    folder = tmp_path / "files"
    write_sample_documents(folder, count=60)

    # Files that changed less than two seconds ago are read again.
    wait_until(lambda: time.time() > max(each.stat().st_ctime for each in folder.rglob("*")) + 2, "the clock stands")
    first = ingest(settings, datasource)
    again = ingest(settings, datasource)
    (folder / "txt" / "txt-0004.txt").write_text("Changed.\n")
    (folder / "new.txt").write_text("New.\n")
    third = ingest(settings, datasource)

    assert (first.new, first.changed, first.unchanged, first.published) == (60, 0, 0, 60)
    assert (again.documents, again.published, again.left_out_count) == (0, 0, 60)
    assert (third.new, third.changed, third.published, third.left_out_count) == (1, 1, 2, 59)
    assert first.failed == again.failed == third.failed == []
    assert published(settings, datasource) == 62


def test_files_that_cannot_be_read_are_reported_and_hold_up_nothing(settings, datasource, tmp_path):
    folder = tmp_path / "files"
    (folder / "a.txt").write_text("fine")
    (folder / "b.txt").write_text("far too long")
    (folder / "c.pb").write_bytes(b"\x0a\x04a/b!")
    (folder / "d.txt").write_text("fine too")

    report = ingest(settings, datasource, FolderConnector(folder, max_bytes=10))

    assert (report.new, report.published) == (2, 2)
    (long, bad_id) = report.failed
    assert long == Unreadable("b.txt", "12 bytes, above the limit of 10; raise max_bytes or split it")
    assert "document id 'a/b!' cannot be part of an object key" in bad_id.reason


def test_stored_documents_are_ingested_under_their_own_ids(settings, datasource, tmp_path):
    for file in STORED.glob("*.pb"):
        shutil.copy(file, tmp_path / "files")

    report = ingest(settings, datasource)

    with Catalogue(settings) as catalogue:
        ids = [row.doc_id for row in catalogue.list("acme", datasource.datasource_id)]
    assert (report.new, report.failed) == (8, [])
    assert all(doc_id.startswith("test-doc-") for doc_id in ids)


def test_progress_is_reported_as_it_goes(settings, datasource, tmp_path):
    write_sample_documents(tmp_path / "files", count=220)
    told = []

    ingest(settings, datasource, progress=lambda report: told.append(report.documents))

    assert told == [100, 200, 220]


def test_force_publishes_everything_again(settings, datasource, tmp_path):
    (tmp_path / "files" / "a.txt").write_text("x")
    ingest(settings, datasource)

    report = ingest(settings, datasource, force=True)

    assert (report.unchanged, report.published) == (1, 1)
    assert published(settings, datasource) == 2


def test_a_datasource_without_a_connector_or_a_topic_says_what_to_do(settings, datasource, unique, tmp_path):
    with pytest.raises(RequestInvalid, match="add one to the graph, or name a folder"):
        ingest(settings, Datasource(unique, "acme", "triage"))
    with pytest.raises(TopicMissing, match="apply the graph"):
        ingest(settings, Datasource(f"{unique}-x", "acme", "triage", connector=datasource.connector))


@pytest.mark.parametrize("point", faults.UPLOAD_POINTS)
def test_an_upload_killed_at_any_step_is_published_once(settings, datasource, config_file, point):
    killed = subprocess.run(
        [sys.executable, "-c", UPLOAD, datasource.datasource_id],
        env=os.environ
        | {"PIPESTREAM_CONFIG": str(config_file), "PYTHONPATH": str(ROOT), faults.VARIABLE: f"{point}=kill"},
        cwd=ROOT,
        check=False,
        timeout=400,
    )
    assert killed.returncode == -signal.SIGKILL

    ingest(settings, datasource)  # of an empty folder: it only publishes what was left over

    with Catalogue(settings) as catalogue:
        recorded = catalogue.list("acme", datasource.datasource_id)
        assert list(catalogue.list("acme", datasource.datasource_id, pending=True)) == []
    assert published(settings, datasource) == len(recorded)
    if point not in (faults.UPLOAD_STORED, faults.OUTBOX_LOCKED, faults.OUTBOX_FENCED):  # the relay starts beside
        assert len(recorded) == 1
