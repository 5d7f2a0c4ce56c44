"""A gRPC module that waits, in a process of its own: ``waiting_module.py SECONDS``. It prints the port it listens on.

It waits without a thread for each call, so it takes as many calls at once as it is given.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2_grpc as service
from pipestream.rpc.server import run_loop
from pipestream_testing.modules import GrpcModuleServer


class _Servicer(service.PipeStepProcessorServiceServicer):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def ProcessData(self, request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        await asyncio.sleep(self._seconds)
        return GrpcModuleServer.answer(request.document)

    async def GetServiceRegistration(self, _request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no registration")


async def main() -> None:
    server = grpc.aio.server()
    service.add_PipeStepProcessorServiceServicer_to_server(_Servicer(float(sys.argv[1])), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@contextmanager
def waiting_module(seconds: float) -> Iterator[str]:
    """Serve a module that answers each call after so many seconds; yield how a graph names it."""
    with subprocess.Popen([sys.executable, __file__, str(seconds)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"grpc:127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    run_loop(main())
