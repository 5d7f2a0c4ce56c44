"""Modules that misbehave on purpose, and real servers for modules behind gRPC and Unix sockets.

The callables are named as a graph names them, e.g. ``python:pipestream_testing.modules:raising``. Their
behaviour is set by the node's ``config``, because a drain runs them in a process of its own.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from pipestream.errors import ModuleUnavailable
from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2_grpc as service
from pipestream.gen.ai.pipestream.data.module.v1.module_service_pb2 import (
    PROCESSING_OUTCOME_SUCCESS,
    GetServiceRegistrationResponse,
)
from pipestream.modules.declare import declare_module
from pipestream.rpc.channels import CHANNEL_OPTIONS
from pipestream.wire import ProcessDataResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc, ProcessDataRequest


def passing(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Return the document as it is."""
    return document


def raising(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Fail on every document, or only on those whose id contains ``config.only``."""
    only = context.config.get("only", "")
    if only in document.doc_id:
        raise ValueError(context.config.get("message", "broken on purpose"))
    return document


def hanging(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Sleep for an hour."""
    time.sleep(3_600)
    return document


@declare_module(is_concurrent=True)
def meeting(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Wait until as many documents as ``config.parties`` are here at the same moment, wherever they are processed.

    Each leaves a file in ``config.folder`` when it comes, so a document that is alone waits, and then fails.
    """
    folder, parties = Path(context.config["folder"]), int(context.config["parties"])
    (folder / f"{context.node_id}-{document.doc_id}.here").touch()
    deadline = time.monotonic() + 200
    while len(list(folder.glob("*.here"))) < parties:
        if time.monotonic() > deadline:
            raise ValueError(f"{document.doc_id} waited for {parties} documents, and they did not come together")
        time.sleep(0.02)
    return document


def computing(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Compute for ``config.cpu_s`` seconds of this thread's CPU time."""
    until = time.thread_time() + context.config["cpu_s"]
    while time.thread_time() < until:
        pass
    return document


def spinning(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Never stop computing."""
    while True:
        pass


def flaky(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Be unavailable for the first ``config.failures`` tries of each document (1 unless given)."""
    if context.attempt <= context.config.get("failures", 1):
        raise ModuleUnavailable(f"flaky on purpose, try {context.attempt}")
    return document


def dying(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """End the process at once, as a crash would; with ``config.marker``, only until that file exists.

    With ``config.only``, only on documents whose id contains that; with ``config.signal``, by that signal.
    """
    if context.config.get("only", "") not in document.doc_id:
        return document
    marker = context.config.get("marker")
    if marker is not None:
        if Path(marker).exists():
            return document
        Path(marker).touch()
    if (number := context.config.get("signal")) is not None:
        os.kill(os.getpid(), int(number))
    os._exit(9)


_at_work: list[str] = []


@declare_module(is_concurrent=True)
def dying_among_others(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """End the process at documents whose id has ``deadly`` in it, as soon as another thread is at work on one.

    After some seconds without one, it ends all the same.
    """
    if "deadly" in document.doc_id:
        deadline = time.monotonic() + 4
        while not _at_work and time.monotonic() < deadline:
            time.sleep(0.001)
        os._exit(9)
    _at_work.append(document.doc_id)
    time.sleep(0.02)
    _at_work.remove(document.doc_id)
    return document


def fanning_out(document: PipeDoc, context: ModuleContext) -> Iterator[PipeDoc]:
    """Return ``config.copies`` documents (2 unless given), numbered in their title."""
    for number in range(int(context.config.get("copies", 2))):
        document.search_metadata.title = f"part {number}"
        yield document


class GrpcModuleServer:
    """A module served by gRPC, answering with ``handler``; a context manager. Port 0 means a free one.

    Without ``capabilities`` and ``schema`` it has no registration. With ``health`` it has gRPC's health service, whose
    state ``set_health`` changes.
    """

    def __init__(
        self,
        handler: Callable[[ProcessDataRequest, grpc.ServicerContext], ProcessDataResponse],
        port: int = 0,
        *,
        capabilities: Sequence[int] | None = None,
        schema: str | None = None,
        health: bool = False,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.capabilities = capabilities
        self.schema = schema
        self.registrations = 0
        outer = self

        class Servicer(service.PipeStepProcessorServiceServicer):
            def ProcessData(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
                return handler(request, context)

            def GetServiceRegistration(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's
                return outer._register(context)

        self._pool = ThreadPoolExecutor(8, thread_name_prefix="module-server")
        self._server = grpc.server(self._pool, options=[*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)])
        service.add_PipeStepProcessorServiceServicer_to_server(Servicer(), self._server)  # type: ignore[no-untyped-call]
        self._health = HealthServicer() if health else None
        if self._health is not None:
            add_HealthServicer_to_server(self._health, self._server)
        address = f"127.0.0.1:{port}"
        if credentials is None:
            self.port: int = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        self.spec = f"grpc:127.0.0.1:{self.port}"

    @staticmethod
    def answer(document: PipeDoc) -> ProcessDataResponse:
        """Return the answer of a module that succeeded with this document."""
        return ProcessDataResponse(outcome=PROCESSING_OUTCOME_SUCCESS, output_doc=document)

    def set_health(self, is_serving: bool) -> None:
        assert self._health is not None
        status = HealthCheckResponse.SERVING if is_serving else HealthCheckResponse.NOT_SERVING
        self._health.set("", status)

    def _register(self, context: Any) -> Any:
        if self.capabilities is None and self.schema is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no registration")
        self.registrations += 1
        answer = GetServiceRegistrationResponse(module_name="parser", version="1.2.3", json_config_schema=self.schema)
        answer.capabilities.types.extend(self.capabilities or ())
        return answer

    def __enter__(self) -> GrpcModuleServer:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()
        self._pool.shutdown()


class SocketModuleServer:
    """A module behind a Unix socket at ``path``, answering each request's bytes with ``handler``, in a thread each.

    A handler that returns None keeps the connection open until the server ends: a module that hangs.
    """

    def __init__(self, path: Path, handler: Callable[[bytes], bytes | None]) -> None:
        self.spec = f"unix:{path}"
        self._handler = handler
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._answering: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._serve, name="socket-module", daemon=True)

    def __enter__(self) -> SocketModuleServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for thread in self._answering:
            thread.join()
        for connection in [self._listener, *self._open]:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the listener was shut down
                return
            self._answering.append(threading.Thread(target=self._answer, args=(connection,), daemon=True))
            self._answering[-1].start()

    def _answer(self, connection: socket.socket) -> None:
        request = b"".join(iter(lambda: connection.recv(65_536), b""))
        answer = self._handler(request)
        if answer is None:
            self._open.append(connection)
            return
        with connection:
            connection.sendall(answer)
