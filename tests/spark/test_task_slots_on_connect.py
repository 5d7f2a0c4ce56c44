"""How many tasks a Spark Connect server runs at once, which a run asks before it cuts its ranges into tasks."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from pipestream.local.spark import CONNECT_CORES
from pipestream.rpc.spark_connect import connect_place
from pipestream_spark.connect import open_session
from pipestream_spark.connect_runner import ConnectRunner
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.usefixtures("spark_connect")]


@pytest.fixture
def session(settings):
    made = open_session(connect_place(settings))
    yield made
    made.client.close()


def test_a_server_whose_cores_are_all_taken_says_how_many_it_has(settings, session, tmp_path):
    def hold(batches):
        import time

        for batch in batches:
            for number in batch.column("id").to_pylist():
                Path(tmp_path, str(number)).touch()
            while not Path(tmp_path, "go on").exists():
                time.sleep(0.05)
            yield batch

    held = session.range(0, CONNECT_CORES, 1, CONNECT_CORES).mapInArrow(hold, "id bigint")
    holding = threading.Thread(target=held.toArrow, daemon=True)
    found = []

    with closing(ConnectRunner(open_session(connect_place(settings)), settings)) as runner:
        asking = threading.Thread(target=lambda: found.append(runner.find_task_slots()), daemon=True)
        holding.start()
        try:
            wait_until(lambda: len(list(tmp_path.iterdir())) == CONNECT_CORES, "the tasks did not start", timeout_s=200)
            asking.start()
            wait_until(lambda: found, "it waits for a free core", timeout_s=60)
        finally:
            (tmp_path / "go on").touch()
            holding.join()

    assert found == [CONNECT_CORES]
