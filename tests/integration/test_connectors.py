"""Connectors into the Repository, on real servers: each document is published once, whatever dies when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace

import obstore
import pytest
from obstore.store import S3Store

from pipestream import faults
from pipestream.connectors.connector import Unreadable
from pipestream.connectors.ingest import ingest
from pipestream.errors import SourceUnreadable
from pipestream.graph.model import Connector, Datasource
from pipestream.objects.s3 import obstore_options
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.pipeline import read_topic
from pipestream_testing.waiting import wait_until
from pipestream_testing.website import run_site

pytestmark = pytest.mark.stack

INGEST = """
import json, sys
from pipestream.connectors.ingest import ingest
from pipestream.graph.model import Connector, Datasource
from pipestream.settings import load_settings

name, kind, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
ingest(load_settings(), Datasource(name, "acme", "triage", connector=Connector(kind, options)))
"""


@pytest.fixture
def datasource(settings, unique):
    TopicAdmin(settings).create([TopicSpec(f"intake.{unique}", 2, None, Purpose.INTAKE)])

    def make(kind, **options):
        return Datasource(unique, "acme", "triage", connector=Connector(kind, options))

    return make


@pytest.fixture
def bucket(settings, unique):
    store = S3Store("pipestream", **obstore_options(settings))
    prefix = f"source-{unique}"

    def put(name, data):
        obstore.put(store, f"{prefix}/{name}", data)

    return prefix, put


def published(settings, source):
    """Return the document ids of the intake topic, each as often as it is there."""
    return sorted(record.record.key.decode() for record in read_topic(settings, f"intake.{source.datasource_id}"))


def reasons(report):
    return {reason: tally.count for reason, tally in report.left_out.items()}


def test_objects_are_taken_by_their_etag(settings, datasource, bucket):
    prefix, put = bucket
    put("a.txt", b"one")
    put("deep/ü b.txt", b"two")
    put("c.bin", b"x" * 50)
    put("skip.log", b"")
    source = datasource("s3", bucket="pipestream", prefix=prefix, pattern="*.[tb]*", max_bytes=20)

    first = ingest(settings, source)
    again = ingest(settings, source)
    put("a.txt", b"changed")
    third = ingest(settings, source)

    assert (first.new, first.published, first.failed_count) == (2, 2, 1)
    assert first.failed == [
        Unreadable(f"{prefix}/c.bin", "50 bytes, above the limit of 20; raise max_bytes or split it")
    ]
    assert reasons(first) == {"its name does not match the pattern": 1}
    assert (again.documents, again.published, again.failed_count) == (0, 0, 1)
    assert reasons(again)["unchanged since an earlier run"] == 2
    assert (third.changed, third.unchanged, third.published) == (1, 0, 1)
    assert len(published(settings, source)) == 3


def test_a_limited_run_is_continued_by_the_next(settings, datasource, bucket):
    prefix, put = bucket
    for number in range(7):
        put(f"{number}.txt", b"%d" % number)
    source = datasource("s3", bucket="pipestream", prefix=prefix, max_documents=3)

    reports = [ingest(settings, source) for _ in range(4)]

    assert [report.new for report in reports] == [3, 3, 1, 0]
    assert [bool(report.stopped) for report in reports] == [True, True, False, False]
    assert len(set(published(settings, source))) == len(published(settings, source)) == 7


def test_a_limited_run_over_a_folder_is_continued_by_the_next(settings, datasource, tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.txt").write_text(str(number))
    # Files that changed less than two seconds ago are read again, so a run would not get further.
    wait_until(lambda: time.time() > (tmp_path / "6.txt").stat().st_ctime + 2, "the clock stands still")
    source = datasource("folder", path=str(tmp_path), max_documents=3)

    reports = [ingest(settings, source) for _ in range(4)]

    assert [report.new for report in reports] == [3, 3, 1, 0]
    assert [bool(report.stopped) for report in reports] == [True, True, False, False]
    assert len(published(settings, source)) == 7


def test_a_limited_run_over_a_feed_is_continued_by_the_next(settings, datasource):
    entries = "".join(f"<entry><id>urn:{number}</id><title>{number}</title></entry>" for number in range(7))
    with run_site() as site:
        feed = f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'.encode()
        site.pages["/feed"] = (200, {"ETag": '"1"'}, feed)
        source = datasource(
            "feed", url=f"{site.address}/feed", allow_private=True, requests_per_second=1000.0, max_documents=3
        )

        reports = [ingest(settings, source) for _ in range(4)]

    assert [report.new for report in reports] == [3, 3, 1, 0]
    assert [bool(report.stopped) for report in reports] == [True, True, False, False]
    assert len(published(settings, source)) == 7


def test_force_takes_everything_again_and_other_options_start_over(settings, datasource, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    source = datasource("jsonl", path=str(tmp_path), id=["n"])
    ingest(settings, source)

    forced = ingest(settings, source, force=True)
    other = Connector("jsonl", {**source.connector.options, "keep_rest": False})
    changed = ingest(settings, replace(source, connector=other))

    assert (forced.unchanged, forced.published) == (2, 2)
    assert (changed.changed, changed.published) == (2, 2)


def test_a_bucket_that_is_not_there_says_what_to_do(settings, datasource, unique):
    with pytest.raises(SourceUnreadable, match="the bucket does not exist; make it, or correct the address"):
        ingest(settings, datasource("s3", bucket=f"{unique}-none"))


def test_keys_of_its_own_come_from_the_secrets_and_are_never_shown(settings, datasource, unique, caplog):
    key = f"wrong-{uuid.uuid4().hex}"
    given = settings.model_copy(update={"plugin_secrets": _secrets({"s.key": key, "s.secret": key})})
    options = {"bucket": "pipestream", "access_key_secret": "s.key", "secret_key_secret": "s.secret"}

    with pytest.raises(SourceUnreadable, match=r"correct s3_access_key|access is denied") as caught:
        ingest(given, datasource("s3", **options))

    assert key not in str(caught.value) + caplog.text


def _secrets(plain):
    from pydantic import SecretStr

    return {name: SecretStr(value) for name, value in plain.items()}


POINTS = (f"{faults.UPLOAD_RECORDED}=kill@2", f"{faults.OUTBOX_PUBLISHED}=kill", f"{faults.CONNECTOR_UPLOADED}=kill@2")
ROWS = 600


def test_a_connector_that_is_killed_at_each_step_publishes_each_document_once(
    settings, datasource, config_file, tmp_path
):
    file = tmp_path / "rows.jsonl"
    source = datasource("jsonl", path=str(file), id=["n"])

    for number, point in enumerate(POINTS):
        # More than one batch of 500 for each run, whatever the one before has finished.
        with file.open("a") as opened:
            opened.writelines(f'{{"n": {number * ROWS + row}}}\n' for row in range(ROWS))
        fault = {faults.VARIABLE: point, "PIPESTREAM_CONFIG": str(config_file)}
        command = [sys.executable, "-c", INGEST, source.datasource_id, "jsonl", json.dumps(source.connector.options)]
        done = subprocess.run(command, env={**os.environ, **fault}, capture_output=True, text=True, timeout=300)
        assert done.returncode == -signal.SIGKILL, f"{point}: {done.stderr}"
    ingest(settings, source)

    found = published(settings, source)
    assert len(found) == len(set(found)) == ROWS * len(POINTS)
