"""An empty grpc.aio server that answers a call once a record of it is in a committed Kafka transaction.

It shows what is left for an engine that does nothing else: no document is read, no key is remembered. Calls that come
during a transaction share the next one, with one record more, as in the engine. Arguments: PORT, BOOTSTRAP, TOPIC.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from itertools import cycle
from queue import SimpleQueue
from typing import Any

import grpc

from pipestream.kafka.records import OutputRecord
from pipestream.kafka.writer import TransactionalWriter
from pipestream.rpc.server import run_loop
from pipestream.settings import Settings
from pipestream_testing.echo_server import serve_alone

METHOD = "/bench.Bare/Call"

Waiting = tuple[bytes, "asyncio.Future[None]"]


class _Bare(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, waiting: SimpleQueue[Waiting]) -> None:
        self._waiting = waiting

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer) if details.method == METHOD else None

    async def _answer(self, request: bytes, _context: Any) -> bytes:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put((request, done))
        await done
        return request[:64]


def _commit(waiting: SimpleQueue[Waiting], loop: asyncio.AbstractEventLoop, settings: Settings, topic: str) -> None:
    writers = [TransactionalWriter(settings, [f"{topic}/{number}"], topic, linger_ms=0) for number in range(2)]
    for writer in cycle(writers):
        batch = [waiting.get()]
        while not waiting.empty():
            batch.append(waiting.get())
        keys = OutputRecord(topic, None, b"k" * 150 * len(batch), partition=1)
        writer.commit([*(OutputRecord(topic, b"doc-1", value, partition=0) for value, _ in batch), keys])
        loop.call_soon_threadsafe(_resolve, [done for _, done in batch])


def _resolve(calls: list[asyncio.Future[None]]) -> None:
    for call in calls:
        if not call.done():
            call.set_result(None)


async def main() -> None:
    port, bootstrap, topic = sys.argv[1:]
    waiting: SimpleQueue[Waiting] = SimpleQueue()
    arguments = (waiting, asyncio.get_running_loop(), Settings(kafka_bootstrap=bootstrap), topic)
    threading.Thread(target=_commit, args=arguments, daemon=True).start()
    await serve_alone(_Bare(waiting), port)


if __name__ == "__main__":
    run_loop(main())
