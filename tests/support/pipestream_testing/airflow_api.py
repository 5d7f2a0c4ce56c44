"""Airflow as a person uses it: through its API, which is what its pages call, and through its command line."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipestream.local import Stack
from pipestream_testing.waiting import wait_until

DEADLINE_S = 900.0
"""For a run of a few Spark jobs, on a machine that has many other things to do."""
wait_for = partial(wait_until, timeout_s=DEADLINE_S, poll_s=0.5)

ENDED = ("success", "failed")


class AirflowApi:
    """The Airflow of a running stack, with its administrator signed in."""

    def __init__(self, stack: Stack) -> None:
        self._address = next(server.address for server in stack.status() if server.name == "airflow")
        self._environment = stack.environment()
        user, password = stack.airflow_login()
        self._token = ""
        self._token = self.call("POST", "/auth/token", {"username": user, "password": password})["access_token"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        with urllib.request.urlopen(self._request(method, path, body), timeout=120) as answer:
            return json.load(answer)

    def _request(self, method: str, path: str, body: object = None) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(self._address + path, data, headers, method=method)

    def refusal(self, method: str, path: str, body: object) -> tuple[int, str]:
        """Return how a call is refused: its status and what Airflow says."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.call(method, path, body)
        with closing(refused.value) as error:
            return error.code, error.read().decode()

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "airflow"), *arguments]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    # -- DAGs -------------------------------------------------------------------------------------

    def wait_for_dag(self, dag_id: str) -> None:
        def is_known() -> bool:
            errors = self.call("GET", "/api/v2/importErrors")["import_errors"]
            assert errors == []
            return dag_id in {dag["dag_id"] for dag in self.call("GET", "/api/v2/dags")["dags"]}

        wait_for(is_known, f"Airflow has not found {dag_id}")

    def unpause(self, dag_id: str) -> None:
        self.wait_for_dag(dag_id)
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": True})

    def read_file_again(self, dag_id: str) -> None:
        """Have the DAG processor read the file of a DAG now, and wait until it has."""
        before = self.call("GET", f"/api/v2/dags/{dag_id}")
        request = self._request("PUT", f"/api/v2/parseDagFile/{before['file_token']}")
        with urllib.request.urlopen(request, timeout=120):
            pass
        read_at = before["last_parsed_time"]
        wait_for(
            lambda: self.call("GET", f"/api/v2/dags/{dag_id}")["last_parsed_time"] != read_at, "it is not read again"
        )

    # -- runs -------------------------------------------------------------------------------------

    def start(self, dag_id: str, **params: object) -> str:
        """Fill in the form, start the run, and return its id at once."""
        run = self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": params})
        return str(run["dag_run_id"])

    def trigger(self, dag_id: str, **params: object) -> str:
        """Fill in the form, start the run, and return its id when it has ended."""
        run_id = self.start(dag_id, **params)
        self.wait_for_run(dag_id, run_id)
        return run_id

    def wait_for_run(self, dag_id: str, run_id: str) -> None:
        """Wait until a run has ended, and make sure that it ended well."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        wait_for(lambda: self.call("GET", path)["state"] in ENDED, f"{run_id} has not ended")
        state = self.call("GET", path)["state"]
        assert state == "success", {task: self.log(dag_id, run_id, task) for task in self.tasks(dag_id, run_id)}

    def runs(self, dag_id: str, run_type: str) -> dict[str, dict[str, Any]]:
        """Return the runs of a kind by the day that their data interval begins."""
        found = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?run_type={run_type}")["dag_runs"]
        return {run["data_interval_start"][:10]: run for run in found}

    def scheduled_run(self, dag_id: str) -> str:
        """Return the id of the run that the scheduler makes when a DAG is unpaused, as soon as it is there."""
        (run,) = wait_for(lambda: self.runs(dag_id, "scheduled").values(), f"no scheduled run of {dag_id}")
        return str(run["dag_run_id"])

    # -- tasks ------------------------------------------------------------------------------------

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Return how each task of a run ended."""
        found = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def drains(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Return how each drain task of a run ended."""
        found = self.tasks(dag_id, run_id)
        return {task_id: state for task_id, state in found.items() if task_id.startswith("drain_")}

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", self._task_path(dag_id, run_id, task_id))
        return found

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task of a run, so that it runs again; one that runs is stopped first."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task of a run as succeeded or failed; one that runs is stopped."""
        self.call("PATCH", self._task_path(dag_id, run_id, task_id), {"new_state": state})

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> dict[str, Any]:
        """Wait until a task asks people, give an answer, and return what it asked."""
        path = f"{self._task_path(dag_id, run_id, task_id)}/-1/hitlDetails"
        wait_for(lambda: self.tasks(dag_id, run_id).get(task_id) == "awaiting_input", f"{task_id} has not asked")
        # An answer resumes the same try. If it comes before the scheduler has noted that the process which asked has
        # ended, Airflow takes that end for the end of the resumed one, and the next try asks again.
        for _ in range(2):
            self._wait_for_heartbeat()
        asked: dict[str, Any] = self.call("GET", path)
        self.call("PATCH", path, {"chosen_options": [option], "params_input": {}})
        return asked

    def _wait_for_heartbeat(self) -> None:
        """Wait until the scheduler has been at work after now."""
        last = self._heartbeat()
        wait_for(lambda: self._heartbeat() != last, "the scheduler stands still")

    def _heartbeat(self) -> str:
        return str(self.call("GET", "/api/v2/monitor/health")["scheduler"]["latest_scheduler_heartbeat"])

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """Return the links that the UI shows for a task."""
        found = self.call("GET", f"{self._task_path(dag_id, run_id, task_id)}/links")["extra_links"]
        return dict(found)

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return what a task said in its last try."""
        number = self.task(dag_id, run_id, task_id)["try_number"]
        path = f"{self._task_path(dag_id, run_id, task_id)}/logs/{number}?full_content=true"
        return "\n".join(json.dumps(line) for line in self.call("GET", path)["content"])

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return the value that a task returned."""
        path = f"{self._task_path(dag_id, run_id, task_id)}/xcomEntries/return_value?deserialize=true"
        return self.call("GET", path)["value"]

    @staticmethod
    def _task_path(dag_id: str, run_id: str, task_id: str) -> str:
        return f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"

    # -- backfills --------------------------------------------------------------------------------

    def post_backfill(self, dag_id: str, first: datetime, last: datetime, **more: object) -> int:
        """Create a backfill of the intervals that begin from first to last, by the API, and return its id at once."""
        body = {"dag_id": dag_id, "from_date": first.isoformat(), "to_date": last.isoformat(), **more}
        return int(self.call("POST", "/api/v2/backfills", body)["id"])

    def wait_for_backfill(self, backfill_id: int) -> None:
        path = f"/api/v2/backfills/{backfill_id}"
        wait_for(lambda: self.call("GET", path)["completed_at"], f"backfill {backfill_id} has not ended")

    def create_backfill(self, dag_id: str, first: datetime, last: datetime, *more: str) -> None:
        """Create a backfill from the first interval to the last, given by their beginnings, with the command line.

        Return when it has ended.
        """
        days = ("--from-date", first.isoformat(), "--to-date", last.isoformat())
        done = self.run_command("backfill", "create", "--dag-id", dag_id, *days, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        for each in self.call("GET", f"/api/v2/backfills?dag_id={dag_id}")["backfills"]:
            self.wait_for_backfill(each["id"])
