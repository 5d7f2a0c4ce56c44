"""An empty grpc.aio server, to compare with: it answers every unary call with a few bytes. Argument: PORT."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import grpc.aio

from pipestream.rpc.server import run_loop

METHOD = "/bench.Echo/Call"


class _Echo(grpc.GenericRpcHandler):  # type: ignore[misc]
    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(_answer) if details.method == METHOD else None


async def _answer(request: bytes, _context: Any) -> bytes:
    return request[:64]


async def serve_alone(handler: grpc.GenericRpcHandler, port: str) -> None:
    """Serve calls until the process is killed; the line ``ready`` says from when on."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    run_loop(serve_alone(_Echo(), sys.argv[1]))
