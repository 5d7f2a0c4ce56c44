"""How many bytes of requests a server has in work, and the bound on them."""

from __future__ import annotations

import asyncio
from collections import deque

from pipestream.errors import Overloaded


class InFlightBytes:
    """Counts the bytes of requests from their arrival to their answer. For one event loop.

    A request is let in where nothing else is in work, however large it is: the bound is there to protect the process
    from many at once, and the size of one has a limit of its own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.now = 0
        """Bytes that are in work."""

    @property
    def waiting(self) -> int:
        """How many requests of streams wait for room."""
        return len(self._waiting)

    def take(self, size_bytes: int) -> None:
        """Count a request.

        :raises Overloaded: there is no room for it.
        """
        if self.now and self.now + size_bytes > self._most:
            raise Overloaded(
                f"requests of {self.now} bytes are in work, and {size_bytes} more would be over the {self._most} that "
                f"this process takes (grpc_in_flight_bytes); try again"
            )
        self.now += size_bytes

    async def take_patiently(self, size_bytes: int) -> None:
        """Count a request, as soon as there is room for it."""
        while self.now and self.now + size_bytes > self._most:
            room = asyncio.get_running_loop().create_future()
            self._waiting.append(room)
            await room
        self.now += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Count a request no longer: it was answered."""
        self.now -= size_bytes
        # All of them look again: each knows its own size only.
        while self._waiting:
            room = self._waiting.popleft()
            if not room.done():  # whoever waited may have gone away
                room.set_result(None)


class StreamBytes:
    """What one stream of requests has in work, if it gets an answer for each."""

    def __init__(self, all_bytes: InFlightBytes, *, may_wait: bool = True) -> None:
        """:param may_wait: for room; otherwise a request is refused where there is none."""
        self._all = all_bytes
        self._may_wait = may_wait
        self._is_closed = False
        self._sizes: deque[int] = deque()

    async def take(self, size_bytes: int) -> None:
        """Count a request, as soon as there is room: the sender is not read from until then.

        :raises Overloaded: there is none, and the stream may not wait.
        """
        if self._may_wait:
            await self._all.take_patiently(size_bytes)
        else:
            self._all.take(size_bytes)
        if self._is_closed:  # meanwhile: the reader of a cancelled stream may end after the stream
            self._all.give_back(size_bytes)
        else:
            self._sizes.append(size_bytes)

    def answered(self) -> None:
        """Count a request no longer. Answers may come in another order, so it may be another one that counts on."""
        if self._sizes:
            self._all.give_back(self._sizes.popleft())

    def close(self) -> None:
        """Count nothing of the stream any more, nor from now on."""
        self._is_closed = True
        while self._sizes:
            self.answered()
