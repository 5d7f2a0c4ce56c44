"""What every call passes before its service: the token, the limit of calls, and a status for everything raised.

Left alone, grpc answers UNKNOWN for an error that a service raises and for bytes that are not the message. UNKNOWN
tells a client nothing, so nothing here ends with it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from pipestream.errors import Overloaded, PipestreamError, RequestInvalid
from pipestream.rpc.calls import count_call
from pipestream.rpc.in_flight_bytes import InFlightBytes, StreamBytes
from pipestream.rpc.status import ERROR_CODE, RpcStatus, details_of, status_of

log = logging.getLogger(__name__)

FORWARDED = "pipestream-forwarded"
"""Request metadata of a call that another server handed on. It is not handed on again, since owners may have changed
meanwhile, and does not wait for room."""

_FREE = ("/grpc.health.",)
"""Calls of these services pass without a token and without a limit: whoever watches the server must get an answer."""


Deserialize = Callable[[bytes], Any]


class Gate(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Lets calls through to their services, and counts them.

    Services are added to the gate, and the gate to the server. An interceptor could do the same, but it costs two
    coroutines more for every call.
    """

    def __init__(self, max_calls: int, max_bytes: int, token: str = "") -> None:
        """:param max_bytes: of the requests in work; more are refused, and more of a stream wait."""
        self._max_calls = max_calls
        self._bytes = InFlightBytes(max_bytes)
        self._expected = f"Bearer {token}" if token else ""
        self._active = 0
        self._closed = ""
        self._idle = asyncio.Event()
        self._idle.set()
        self._services: list[Any] = []
        self._handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        """Add a service. Generated code calls it, as a method of the server."""
        self._services.extend(handlers)

    def add_registered_method_handlers(self, service_name: str, handlers: Any) -> None:
        """Do nothing: generated code calls this with the same handlers once more."""

    @property
    def active(self) -> int:
        """How many calls are in progress."""
        return self._active

    @property
    def bytes_in_work(self) -> int:
        """How many bytes of requests are in work."""
        return self._bytes.now

    @property
    def streams_that_wait(self) -> int:
        """How many streams are not read further until there is room for their next request."""
        return self._bytes.waiting

    def close(self, reason: str) -> None:
        """Refuse every call from now on; those in progress go on."""
        self._closed = reason

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no call is in progress, and tell whether that came true in time."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def service(self, details: Any) -> Any:
        """Return the handler of a call, which may be one that refuses it; None: grpc answers UNIMPLEMENTED."""
        method: str = details.method
        handler = self._handlers.get(method)
        if handler is None:
            known = (each.service(details) for each in self._services)
            found = next((each for each in known if each is not None), None)
            if found is None:
                return None
            handler = self._handlers[method] = self._wrap(found, None if method.startswith(_FREE) else method)
        if method.startswith(_FREE):
            return handler
        refused = self._refuse(details)
        if refused is None:
            return handler
        count_call(method, refused[0].code, 0.0)
        return _refusing(handler, *refused)

    def _refuse(self, details: Any) -> tuple[RpcStatus, str] | None:
        if self._expected and not self._has_token(details.invocation_metadata):
            status = RpcStatus(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
            return status, "send the metadata authorization: Bearer TOKEN, with the token of this server"
        if self._closed:
            return RpcStatus(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"), self._closed
        if self._active >= self._max_calls:
            error = Overloaded(f"{self._active} calls are in progress, as many as this process takes; try again")
            return status_of(error), details_of(error)
        return None

    def _has_token(self, metadata: Any) -> bool:
        for name, value in metadata:
            if name == "authorization":
                given = value.encode() if isinstance(value, str) else value
                return hmac.compare_digest(given, self._expected.encode())
        return False

    def _wrap(self, handler: Any, counted: str | None) -> Any:
        """Return a handler that turns errors into status codes, and counts its calls under the name ``counted``.

        It gets the bytes of requests, so that it knows their size for nothing, and refuses them undecoded.
        """
        deserialize = handler.request_deserializer or _as_they_are
        serializer = handler.response_serializer
        if handler.request_streaming and handler.response_streaming:
            behaviour = self._both_streaming(handler.stream_stream, deserialize, counted)
            return grpc.stream_stream_rpc_method_handler(behaviour, None, serializer)
        if handler.response_streaming:
            behaviour = self._streaming(handler.unary_stream, deserialize, counted)
            return grpc.unary_stream_rpc_method_handler(behaviour, None, serializer)
        if handler.request_streaming:
            raise TypeError(
                "no service here takes a stream and answers once, so nothing bounds the bytes of such calls"
            )
        behaviour = self._unary(handler.unary_unary, deserialize, counted)
        return grpc.unary_unary_rpc_method_handler(behaviour, None, serializer)

    def _unary(self, behaviour: Callable[..., Awaitable[Any]], deserialize: Deserialize, counted: str | None) -> Any:
        async def call(data: bytes, context: grpc.aio.ServicerContext) -> Any:
            begun = self._enter(counted)
            held_bytes = 0
            try:
                if counted is not None:
                    self._bytes.take(len(data))
                    held_bytes = len(data)
                return await behaviour(_decode(data, deserialize), context)
            except BaseException as error:
                await _abort(context, error)
            finally:
                self._bytes.give_back(held_bytes)
                self._leave(counted, begun, context)

        return call

    def _streaming(self, behaviour: Callable[..., Any], deserialize: Deserialize, counted: str | None) -> Any:
        async def call(data: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            begun = self._enter(counted)
            try:
                answers = behaviour(_decode(data, deserialize), context)
                if hasattr(answers, "__aiter__"):
                    async for answer in answers:
                        yield answer
                else:  # it writes to the context itself, as the health service does
                    await answers
            except GeneratorExit:
                raise
            except BaseException as error:
                await _abort(context, error)
            finally:
                self._leave(counted, begun, context)

        return call

    def _both_streaming(self, behaviour: Callable[..., Any], deserialize: Deserialize, counted: str | None) -> Any:
        async def call(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            begun = self._enter(counted)
            # Two servers that hand messages on to each other would wait for each other's room forever.
            is_forwarded = any(name == FORWARDED for name, _ in context.invocation_metadata() or ())
            held = StreamBytes(self._bytes, may_wait=not is_forwarded)

            async def each() -> AsyncIterator[Any]:
                async for data in requests:
                    await held.take(len(data))
                    yield _decode(data, deserialize)

            try:
                async for answer in behaviour(each(), context):
                    yield answer
                    held.answered()
            except GeneratorExit:
                raise
            except BaseException as error:
                await _abort(context, error)
            finally:
                held.close()
                self._leave(counted, begun, context)

        return call

    def _enter(self, counted: str | None) -> float:
        if counted is not None:
            self._active += 1
            self._idle.clear()
        return time.perf_counter()

    def _leave(self, counted: str | None, begun: float, context: grpc.aio.ServicerContext) -> None:
        if counted is None:
            return
        self._active -= 1
        if not self._active:
            self._idle.set()
        count_call(counted, context.code(), time.perf_counter() - begun)


def _as_they_are(data: bytes) -> bytes:
    return data


def _decode(data: bytes, deserialize: Deserialize) -> Any:
    try:
        return deserialize(data)
    except DecodeError as error:
        raise RequestInvalid(f"the request's bytes are not the message of this method: {error}") from error


def _refusing(handler: Any, status: RpcStatus, details: str) -> Any:
    """Return a handler of the same kind that only refuses."""

    async def refuse(_request: Any, context: grpc.aio.ServicerContext) -> None:
        await context.abort(status.code, details, ((ERROR_CODE, status.error_code),))

    if handler.request_streaming and handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(refuse)
    return grpc.unary_unary_rpc_method_handler(refuse)


async def _abort(context: grpc.aio.ServicerContext, error: BaseException) -> None:
    """End a call with an error's status. A service that has ended its call itself keeps its own."""
    if isinstance(error, (asyncio.CancelledError, grpc.aio.AbortError)) or context.code():
        raise error
    if not isinstance(error, (PipestreamError, TimeoutError)):
        log.error("unexpected error in a call", exc_info=error)
    status = status_of(error)
    await context.abort(status.code, details_of(error), ((ERROR_CODE, status.error_code),))
