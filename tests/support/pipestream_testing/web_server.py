"""Airflow's API server with our plugin in it, for tests of the pages and of their API: real users, real roles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestream.local import Stack
from pipestream.settings import Settings
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

PASSWORD = "for tests only"
ROLES = ("admin", "viewer")
_START_S = 500.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered."""

    status: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class WebServer:
    """A running API server, and its users."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._tokens: dict[str, str] = {}

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = "admin",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> Reply:
        """Call a path of the server.

        :param body: sent as JSON; text is sent as YAML.
        :param user: who calls, a role of Airflow; empty: nobody.
        """
        sent = {"Accept": "application/json"}
        if user:
            sent["Authorization"] = f"Bearer {self.token(user)}"
        data = None
        if isinstance(body, str):
            data, sent["Content-Type"] = body.encode(), "application/yaml"
        elif body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.address + path, data, {**sent, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return Reply(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read().decode())

    def get(self, path: str, **options: Any) -> Any:
        """Return the JSON that our API answers with; the call must succeed."""
        reply = self.call("GET", f"/pipestream/api{path}", **options)
        assert reply.status == 200, reply
        return reply.json()

    def token(self, user: str) -> str:
        """Return a token for a user, whose name is a role."""
        if user not in self._tokens:
            login = {"username": user, "password": PASSWORD}
            reply = self.call("POST", "/auth/token", login, user="")
            assert reply.status == 201, reply
            self._tokens[user] = reply.json()["access_token"]
        return self._tokens[user]


@contextmanager
def web_server(stack: Stack, settings: Settings, folder: Path, **extra: str) -> Iterator[WebServer]:
    """Run Airflow's API server on a stack, with settings of a test's own, inside the block."""
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(ROLES, PASSWORD)))
    config = folder / "web.toml"
    write_settings(config, settings)
    environment = {
        **stack.prepare_airflow(),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{role}:{role}" for role in ROLES),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW_API_APPS": "core",
        "PIPESTREAM_CONFIG": str(config),
        **extra,
    }
    for name in [name for name in environment if name.startswith("PIPESTREAM_") and name != "PIPESTREAM_CONFIG"]:
        if name not in extra:
            del environment[name]
    log = folder / "web.log"
    command = [sys.executable, "-m", "uvicorn", "airflow.api_fastapi.main:app", "--port", "0", "--host", "127.0.0.1"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        address = wait_until(lambda: _address(log, process), "the API server did not start", timeout_s=_START_S)
        yield WebServer(address)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    text = log.read_text(errors="replace")
    assert process.poll() is None, text
    marker = "Uvicorn running on "
    return text.partition(marker)[2].split()[0] if marker in text else ""
