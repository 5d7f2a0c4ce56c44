"""Channels of clients: the same options, TLS and token, for blocking code and for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc
import grpc.aio

from pipestream.rpc.security import ChannelSecurity

PLAIN_TEXT = ChannelSecurity()

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The most that a client sends or takes; the server has its own limit."""

CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # After a lost connection gRPC pauses for 1 to 120 s by default, and fails calls at once until then.
    # That would use all attempts of a document, although its module may be back already.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]


def open_channel(
    target: str, security: ChannelSecurity = PLAIN_TEXT, options: Sequence[tuple[str, Any]] = ()
) -> grpc.Channel:
    """Return a channel for blocking calls.

    :raises SettingsInvalid: a certificate cannot be read.
    """
    credentials = security.credentials()
    all_options = [*CHANNEL_OPTIONS, *options]
    if credentials is None:
        channel = grpc.insecure_channel(target, options=all_options)
    else:
        channel = grpc.secure_channel(target, credentials, options=all_options)
    return grpc.intercept_channel(channel, _TokenSender(security.token)) if security.token else channel


def open_aio_channel(
    target: str, security: ChannelSecurity = PLAIN_TEXT, options: Sequence[tuple[str, Any]] = ()
) -> grpc.aio.Channel:
    """Return a channel for calls in an event loop.

    :raises SettingsInvalid: a certificate cannot be read.
    """
    credentials = security.credentials()
    all_options = [*CHANNEL_OPTIONS, *options]
    interceptors = _aio_senders(security.token) if security.token else None
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=all_options, interceptors=interceptors)
    return grpc.aio.secure_channel(target, credentials, options=all_options, interceptors=interceptors)


class _CallDetails(NamedTuple):
    """What grpc reads of a call's details."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str]] | None
    credentials: Any
    wait_for_ready: bool | None
    compression: Any = None


def _with_token(details: Any, token: str) -> _CallDetails:
    metadata = [*(details.metadata or ()), ("authorization", f"Bearer {token}")]
    return _CallDetails(
        details.method,
        details.timeout,
        metadata,
        details.credentials,
        details.wait_for_ready,
        getattr(details, "compression", None),
    )


class _TokenSender(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
    grpc.StreamStreamClientInterceptor,  # type: ignore[misc]
):
    """Sends the token with every call. Not as gRPC call credentials, which plain-text channels refuse."""

    def __init__(self, token: str) -> None:
        self._token = token

    def _send(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(_with_token(details, self._token), request)

    intercept_unary_unary = _send
    intercept_unary_stream = _send
    intercept_stream_unary = _send
    intercept_stream_stream = _send


def _aio_senders(token: str) -> list[grpc.aio.ClientInterceptor]:
    """Return an interceptor for each kind of call: asyncio takes one that is of several kinds only as the first."""

    async def send(_self: Any, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", f"Bearer {token}"))
        return await continuation(
            grpc.aio.ClientCallDetails(
                details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
            ),
            request,
        )

    kinds = ("UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream")
    names = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
    return [
        type(f"{kind}Token", (getattr(grpc.aio, f"{kind}ClientInterceptor"),), {f"intercept_{name}": send})()
        for kind, name in zip(kinds, names, strict=True)
    ]
