"""Kill the Repository at each of its steps while clients upload and retry; each upload is published exactly once."""

from __future__ import annotations

import threading
import time
from itertools import count

import httpx
import pytest

from pipestream import faults
from pipestream_testing.length import LONG, by_length
from pipestream_testing.oracle import judge
from pipestream_testing.repository_process import RepositoryProcess, apply_graph
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

DOCUMENTS = by_length(40, 400)
CLIENTS = 4
ROUNDS = by_length(1, 5)
# The short version kills one server after the other at the points where most can go wrong. That a single upload
# survives each point, tests/integration/test_repository_ingest.py shows.
SHORT = (faults.UPLOAD_RECORDED, faults.OUTBOX_CLAIMED, faults.CHUNK_PRODUCED, faults.OUTBOX_PUBLISHED)
POINTS = [(point,) for point in faults.UPLOAD_POINTS for _ in range(ROUNDS)] if LONG else [SHORT]


class Uploads:
    """Clients that upload documents one by one, and repeat an upload until it is answered with success."""

    def __init__(self, datasource_id: str) -> None:
        self.address = ""
        self.done: set[str] = set()
        self._path = f"/uploads/{datasource_id}"
        self._numbers = iter(range(DOCUMENTS))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            doc_id = f"doc-{number}"
            while not self._upload(doc_id):
                time.sleep(0.05)
            self.done.add(doc_id)

    def _upload(self, doc_id: str) -> bool:
        try:
            answer = httpx.post(
                self.address + self._path, content=doc_id.encode(), headers={"X-Document-Id": doc_id}, timeout=60
            )
        except httpx.TransportError:
            return False
        assert answer.status_code in (200, 201, 503), answer.text
        return answer.status_code != 503


@pytest.mark.parametrize("points", POINTS, ids=lambda points: "-and-".join(points) if len(points) == 1 else "all")
def test_uploads_to_a_repository_that_is_killed_are_published_exactly_once(
    pipeline, tmp_path, topic, unique, rounds, drain_when_free, points
):
    apply_graph(pipeline)
    uploads = Uploads(unique)
    folders = (tmp_path / str(number) for number in count())
    for number, point in enumerate(points):
        with RepositoryProcess(pipeline, next(folders), f"{point}=kill@{1 + number % 3}") as server:
            uploads.address = server.http or uploads.address
            if number == 0:
                uploads.start()
            wait_until(lambda server=server: not server.is_running() or uploads.is_over())
    with RepositoryProcess(pipeline, next(folders)) as server:
        uploads.address = server.http
        wait_until(uploads.is_over, timeout_s=300)
        assert len(uploads.done) == DOCUMENTS
        assert server.stop() == 0

    drain_when_free(pipeline, "run-1")

    rounds.add(
        "SIGKILL of the Repository at " + (points[0] if LONG else "its steps"),
        judge(pipeline, sorted(uploads.done), [topic]),
    )
