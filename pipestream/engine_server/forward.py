"""Hand a call on to the process that has its slot."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message

from pipestream.errors import NotOwner, TransientError
from pipestream.rpc.channels import open_aio_channel
from pipestream.rpc.gate import FORWARDED
from pipestream.rpc.security import channel_security
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# Metadata of the connection, which the next one has of its own.
_OF_THE_CONNECTION = ("user-agent", "authorization", "content-type", "te")

# A caller without a deadline gives the owner all the time it takes. If the owner's machine is gone, or its process is
# stopped, nothing would end the call: so it has to answer pings. Servers allow one every 10 s.
_PING_S = 15.0
_PONG_S = 10.0

Response = TypeVar("Response", bound=Message)


class Forwarder:
    """Channels to the peers, made when they are first needed. Use it in one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._security = channel_security(settings)
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def call(
        self,
        error: NotOwner,
        method: str,
        request: Message,
        response_type: type[Response],
        metadata: Sequence[tuple[str, str | bytes]],
        timeout_s: float | None,
    ) -> Response:
        """Make a unary call at the owner that the error names, and return its answer.

        :param method: the full name, ``/package.Service/Method``.
        :param metadata: of the call that came here; the idempotency key and the trace travel on.
        :param timeout_s: what is left of the caller's time; None: it has set no deadline.
        :raises NotOwner: the call was handed on before, or nobody is known to have the slot.
        :raises grpc.aio.AioRpcError: the owner's answer is an error. ``relay`` passes it on.
        """
        send = self._channel(error, metadata).unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response_type.FromString
        )
        answer: Response = await send(request, metadata=_pass_on(metadata), timeout=timeout_s)
        return answer

    async def call_in_stream(
        self,
        error: NotOwner,
        method: str,
        request: Message,
        response_type: type[Response],
        metadata: Sequence[tuple[str, str | bytes]],
        timeout_s: float | None,
    ) -> Response:
        """Do the same for one message of a method that takes a stream and answers each message."""
        send = self._channel(error, metadata).stream_stream(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response_type.FromString
        )
        answers: list[Response] = [
            answer async for answer in send(iter((request,)), metadata=_pass_on(metadata), timeout=timeout_s)
        ]
        if len(answers) != 1:
            raise TransientError(f"{error.owner} answered one message with {len(answers)}; send it again")
        return answers[0]

    def _channel(self, error: NotOwner, metadata: Sequence[tuple[str, str | bytes]]) -> grpc.aio.Channel:
        if not error.owner or any(name == FORWARDED for name, _ in metadata):
            raise error
        channel = self._channels.get(error.owner)
        if channel is None:
            channel = self._channels[error.owner] = open_aio_channel(error.owner, self._security, _ping_options())
        return channel

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


def _ping_options() -> list[tuple[str, int]]:
    return [
        ("grpc.keepalive_time_ms", int(_PING_S * 1000)),
        ("grpc.keepalive_timeout_ms", int(_PONG_S * 1000)),
        # By default two pings, and then none until there is data again; and a minute to answer each.
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.ping_timeout_ms", int(_PONG_S * 1000)),
    ]


def _pass_on(metadata: Sequence[tuple[str, str | bytes]]) -> tuple[tuple[str, str | bytes], ...]:
    return (*((name, value) for name, value in metadata if name not in _OF_THE_CONNECTION), (FORWARDED, "1"))


async def relay(context: Any, error: grpc.aio.AioRpcError) -> None:
    """Answer a call as the owner answered it."""
    # grpc takes back what it hands out only as a plain tuple.
    trailing = tuple((name, value) for name, value in error.trailing_metadata() or ())
    await context.abort(error.code(), error.details() or "", trailing)
