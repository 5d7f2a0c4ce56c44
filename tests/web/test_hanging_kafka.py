"""A Kafka that takes connections and never answers: only what comes from it is missing, and Airflow's API answers."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream_testing.web_server import web_server

pytestmark = pytest.mark.stack

POLLS = 60  # more than Airflow has threads for its own endpoints


@pytest.fixture
def deaf_kafka():
    """The address of a broker that takes every connection and says nothing."""
    taken = []
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:

        def take() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for each in taken:
        each.close()


def test_airflow_answers_while_all_pages_wait_for_kafka(stack, pipeline, pipeline_id, deaf_kafka, tmp_path):
    changes = {"kafka_bootstrap": deaf_kafka, "graphs_folder": tmp_path, "web_timeout_s": 8.0}
    with (
        web_server(stack, pipeline.settings.model_copy(update=changes), tmp_path) as web,
        ThreadPoolExecutor(POLLS) as pool,
    ):
        own = f"/pipestream/api/pipelines/{pipeline_id}"
        warm = web.call("GET", "/api/v2/dags?limit=1")
        paths = [f"{own}/dead-letters?limit={number + 1}" for number in range(POLLS)]
        polls = [pool.submit(web.call, "GET", path) for path in paths]
        began = time.monotonic()
        while not any(poll.done() for poll in polls):
            assert web.call("GET", "/api/v2/dags?limit=1").status == 200
            assert web.call("GET", f"{own}/history").status == 200
            time.sleep(0.01)
        waited_s = time.monotonic() - began
        answers = [poll.result() for poll in polls]
        rows = web.get("/pipelines")
        numbers = web.get(f"/pipelines/{pipeline_id}/numbers")
        state = web.get(f"/pipelines/{pipeline_id}/state")

    assert warm.status == 200
    assert waited_s > 1, "the questions to Kafka did not hang"
    assert {answer.status for answer in answers} == {503}
    assert all("Kafka" in answer.json()["detail"] or "broker" in answer.json()["detail"] for answer in answers)
    assert rows["unavailable"][0]["part"] == "kafka"
    row = next(row for row in rows["pipelines"] if row["id"] == pipeline_id)
    assert (row["waiting"], row["dead_letters"], row["version"]) == (None, None, 1)
    first = numbers["nodes"][0]
    assert (first["waiting"], first["dead_letters"], first["records"]) == (None, None, 4)
    assert state["desired"] == "started"
