"""A live DAG with a small server of its own, and what tests ask about it."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from pipestream_testing.airflow_api import AirflowApi, wait_for

DAG, TASK = "tiny_live", "tiny"

DAG_FILE = """
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from pipestream_airflow import LiveServerOperator

with DAG(
    "tiny_live",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):
    LiveServerOperator(
        task_id="tiny",
        server="tiny",
        url="http://127.0.0.1:PORT",
        command=["PYTHON", "-m", "pipestream_testing.tiny_server", "PORT", "FOLDER"],
        max_age=timedelta(seconds=float(Path("FOLDER/age_s").read_text())),
        poll_s=0.5,
        report_s=5,
    )
"""


class LiveDag:
    """The DAG, before and after its Airflow is there."""

    def __init__(self, folder: Path, age_s: float) -> None:
        self.folder = folder
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.set_age(age_s)

    @property
    def dag_file(self) -> str:
        text = DAG_FILE.replace("PORT", str(self.port)).replace("PYTHON", sys.executable)
        return text.replace("FOLDER", str(self.folder))

    def set_age(self, age_s: float) -> None:
        """Let runs whose task starts after this hand the server over at that age."""
        (self.folder / "age_s").write_text(str(age_s))

    def health(self) -> dict[str, Any]:
        """Ask the server.

        :raises OSError: it does not answer, or is not healthy.
        """
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def pid(self) -> int:
        """Return the pid of the server, or 0 where none answers."""
        with suppress(OSError):
            return int(self.health()["pid"])
        return 0

    def wait_for_server(self, other_than: int = 0) -> int:
        def find() -> int:
            pid = self.pid()
            return pid if pid != other_than else 0

        return int(wait_for(find, "no server answers"))

    def notes(self) -> list[str]:
        file = self.folder / "notes"
        return file.read_text().splitlines() if file.exists() else []

    def wait_for_end(self, pid: int) -> None:
        """Wait until a server has ended by itself, and left no process."""
        wait_for(lambda: f"ends {pid}" in self.notes(), f"server {pid} has not ended by itself")
        wait_for(lambda: not psutil.pid_exists(pid), f"process {pid} is still there")

    def processes(self, live_folder: Path) -> list[int]:
        """Return the processes of the server, and of the guards whose files are in a folder."""
        found = []
        for each in psutil.process_iter():
            with suppress(psutil.Error):
                if each.cmdline()[-1:] in ([str(self.folder)], [str(live_folder)]):
                    found.append(each.pid)
        return found


def runs_of(airflow: AirflowApi, dag_id: str) -> dict[str, str]:
    """Return the runs of a DAG and their states, the oldest first."""
    found = airflow.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=run_after&limit=100")["dag_runs"]
    return {run["dag_run_id"]: run["state"] for run in found}


class Client:
    """Asks the server all the time, and notes every answer that it does not get."""

    def __init__(self, live: LiveDag) -> None:
        self._live = live
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.answers: set[int] = set()
        """The pids of the servers that answered."""
        self.count = 0
        self.failures: list[str] = []

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stopped.is_set():
            try:
                self.answers.add(self._live.health()["pid"])
                self.count += 1
            except OSError as error:
                self.failures.append(f"{time.strftime('%X')} {error}")
            self._stopped.wait(0.05)
