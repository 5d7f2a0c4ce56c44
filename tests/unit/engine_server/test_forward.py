"""Calls that are handed on to the owner of their key: how much time they get."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from pipestream.engine_server import forward
from pipestream.engine_server.forward import Forwarder
from pipestream.errors import NotOwner
from pipestream.settings import load_settings

NAME = "test.Owner"


class Owner:
    """Says how long each caller waits; a caller that says ``wait`` gets no answer."""

    def __init__(self):
        self.left_s = []
        self.called = asyncio.Event()

    async def say(self, request, context):
        self.left_s.append(context.time_remaining())
        self.called.set()
        if request.value == "wait":
            await asyncio.Event().wait()
        return request

    async def each(self, requests, context):
        async for request in requests:
            yield await self.say(request, context)


@asynccontextmanager
async def owning():
    owner, server = Owner(), grpc.aio.server()
    read, write = StringValue.FromString, StringValue.SerializeToString
    handlers = {
        "Say": grpc.unary_unary_rpc_method_handler(owner.say, read, write),
        "Each": grpc.stream_stream_rpc_method_handler(owner.each, read, write),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield owner, port
    finally:
        await server.stop(0)


class Line:
    """Passes bytes on in both directions, until it is cut: then nothing arrives, and no connection is closed."""

    def __init__(self, port):
        self._port = port
        self._tasks = []
        self._writers = []
        self.is_cut = False

    async def open(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def close(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes aborted connections in its next turn

    async def _accept(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, back]
        self._tasks += [asyncio.ensure_future(self._pass(*each)) for each in ((reader, back), (there, writer))]

    async def _pass(self, reader, writer):
        try:
            while data := await reader.read(65_536):
                if not self.is_cut:
                    writer.write(data)
        finally:
            writer.close()


async def hand_on(forwarder, port, value, timeout_s, *, in_stream=False):
    call, method = (forwarder.call_in_stream, "Each") if in_stream else (forwarder.call, "Say")
    error = NotOwner(0, f"127.0.0.1:{port}")
    return await call(error, f"/{NAME}/{method}", StringValue(value=value), StringValue, (), timeout_s)


@pytest.mark.parametrize("in_stream", [False, True])
def test_the_owner_gets_the_time_that_the_caller_has_left(in_stream):
    async def run():
        async with owning() as (owner, port):
            forwarder = Forwarder(load_settings())
            await hand_on(forwarder, port, "x", 200.0, in_stream=in_stream)
            with pytest.raises(grpc.aio.AioRpcError) as late:
                await hand_on(forwarder, port, "wait", 0.5, in_stream=in_stream)
            await forwarder.close()
            return owner.left_s[0], late.value.code()

    left_s, late = asyncio.run(asyncio.wait_for(run(), 60))

    assert left_s < 210.0  # gRPC rounds the time up on its way
    assert late is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_call_without_a_deadline_ends_when_the_owner_is_gone_without_a_word(monkeypatch):
    monkeypatch.setattr(forward, "_PING_S", 0.5)
    monkeypatch.setattr(forward, "_PONG_S", 0.5)

    async def run():
        async with owning() as (owner, owners_port):
            line, forwarder = Line(owners_port), Forwarder(load_settings())
            port = await line.open()
            waiting = asyncio.ensure_future(hand_on(forwarder, port, "wait", None))
            await owner.called.wait()
            line.is_cut = True
            with pytest.raises(grpc.aio.AioRpcError) as gone:
                await waiting
            await forwarder.close()
            await line.close()
            return gone.value.code()

    assert asyncio.run(asyncio.wait_for(run(), 60)) is grpc.StatusCode.UNAVAILABLE
