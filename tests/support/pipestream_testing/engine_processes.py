"""Engines as processes of their own, to be killed and started again, and clients that do not give up."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc
import grpc.aio

from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, IntakeHandoffResponse
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.rpc.channels import CHANNEL_OPTIONS
from pipestream.settings import CONFIG_VARIABLE, Settings
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

HANDOFF = "/ai.pipestream.engine.v1.EngineV1Service/IntakeHandoff"
RETRYABLE = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
}
_PATIENCE_S = 240.0
_CALL_S = 20.0
_CONNECTIONS = 8
_METRICS = re.compile(r"metrics on (\S+)")


class EngineProcess:
    """``pipestream engine serve`` with all its workers, on a port that stays the same."""

    def __init__(self, settings: Settings, folder: Path, workers: int = 2) -> None:
        self._config = folder / "engine.toml"
        write_settings(self._config, settings)
        self._log = folder / "engine.log"
        self._workers = workers
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it; it may not take calls yet when this returns."""
        command = [sys.executable, "-m", "pipestream.cli.main", "--verbose", "engine", "serve"]
        command += ["--port", str(self.port), "--workers", str(self._workers), "--metrics-port", "0"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, CONFIG_VARIABLE: str(self._config), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until a worker takes calls."""

        def is_ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the engine ended with {self._process.returncode}: {self.log}"
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return True
            except OSError:
                return False

        wait_until(is_ready, "the engine does not listen", timeout_s=_PATIENCE_S, poll_s=0.1)

    @property
    def metrics(self) -> str:
        """Return the address of its page of metrics, once it says that it is ready."""
        return wait_until(
            lambda: _METRICS.findall(self._log.read_text()), "the engine is not ready", timeout_s=_PATIENCE_S
        )[-1]

    @property
    def log(self) -> str:
        return self._log.read_text()[-5_000:]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill the parent and all workers at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Stop it gracefully, and return its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_PATIENCE_S)


class PersistentClients:
    """Clients that hand documents over, each with its key, and repeat the call until it is answered."""

    def __init__(self, address: str, at_once: int) -> None:
        self._address = address
        self._at_once = at_once
        self.answers: dict[str, list[bytes]] = {}
        """The answers of each key that arrived, in order."""
        self.repeats = 0

    def hand_over(self, requests: Mapping[str, IntakeHandoffRequest]) -> None:
        """Return once every request was answered. Run it in a thread to break something meanwhile."""
        asyncio.run(self._hand_over(requests))

    async def _hand_over(self, requests: Mapping[str, IntakeHandoffRequest]) -> None:
        # Several connections: the kernel spreads connections over workers, not calls.
        options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(self._address, options=options) for _ in range(_CONNECTIONS)]
        waiting = list(reversed(requests.items()))

        async def work(index: int) -> None:
            call = channels[index % _CONNECTIONS].unary_unary(
                HANDOFF, IntakeHandoffRequest.SerializeToString, IntakeHandoffResponse.FromString
            )
            while waiting:
                await self._call(call, *waiting.pop())

        try:
            await asyncio.gather(*(work(index) for index in range(self._at_once)))
        finally:
            for channel in channels:
                await channel.close()

    async def _call(self, call: grpc.aio.UnaryUnaryMultiCallable, key: str, request: IntakeHandoffRequest) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = await call(request, metadata=((IDEMPOTENCY_KEY, key),), timeout=_CALL_S)
            except grpc.aio.AioRpcError as error:
                if error.code() not in RETRYABLE or time.monotonic() > deadline:
                    raise
                self.repeats += 1
                await asyncio.sleep(0.1)
            else:
                assert answer.accepted, f"{key}: {answer.message}"
                answer.ClearField("queue_depth")  # how busy the engine is, not what it accepted
                self.answers.setdefault(key, []).append(answer.SerializeToString(deterministic=True))
                return


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def documents_of(datasource_id: str, doc_ids: Sequence[str]) -> dict[str, IntakeHandoffRequest]:
    """Return a handoff of a small inline document for each id, by its key."""
    requests = {}
    for doc_id in doc_ids:
        request = IntakeHandoffRequest(datasource_id=datasource_id)
        request.stream.document.doc_id = doc_id
        request.stream.document.search_metadata.title = doc_id
        requests[f"key-{doc_id}"] = request
    return requests
