"""The one connection of a process to a gRPC module, shared by everything in the process that calls the module.

Shared are the channel, the limit of concurrent calls, the circuit breaker, the health watch and what the module said
about itself. An engine with many graphs, or a process with many drains, so treats a module as one thing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import grpc

from pipestream.errors import ModuleUnavailable, TimeBudgetSpent
from pipestream.gen.ai.pipestream.data.module.v1.module_service_pb2_grpc import PipeStepProcessorServiceStub
from pipestream.modules.breaker import CircuitBreaker
from pipestream.modules.health import Health, HealthWatch, check_health
from pipestream.modules.module import ModuleContext, ModuleProfile
from pipestream.modules.registration import ask_registration
from pipestream.modules.statuses import NOT_THROUGH, error_of_status
from pipestream.rpc.channels import open_channel
from pipestream.rpc.security import ChannelSecurity
from pipestream.settings import Settings

_Answer = TypeVar("_Answer")

_MOST_OF_IT = 0.9


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How a module is called."""

    concurrency: int = 16
    """Calls that the process makes at once. Of several users, the one that allows most counts."""
    breaker_failures: int = 2
    breaker_pause_s: float = 0.5
    answer_s: float = 5.0


class _Slots:
    """So many callers at once; the others wait. How many, may change while they do."""

    def __init__(self) -> None:
        self.limit = 0
        self._taken = 0
        self._changed = threading.Condition()

    def allow(self, limit: int) -> None:
        with self._changed:
            self.limit = limit
            self._changed.notify_all()

    def acquire(self, timeout_s: float) -> bool:
        """Wait for a slot and take it; return whether there was one in time."""
        with self._changed:
            if self._taken >= self.limit and not self._changed.wait_for(
                lambda: self._taken < self.limit, min(timeout_s, threading.TIMEOUT_MAX)
            ):
                return False
            self._taken += 1
            return True

    def release(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify()


class Connection:
    """A connection to the module at ``target``. Safe for several threads. Nobody may call before ``allow_calls``."""

    def __init__(self, target: str, security: ChannelSecurity, limits: ConnectionLimits) -> None:
        self.name = f"grpc:{target}"
        self._limits = limits
        self._channel = open_channel(target, security)
        self.stub: Any = PipeStepProcessorServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._slots = _Slots()
        self._breaker = CircuitBreaker(self.name, limits.breaker_failures, limits.breaker_pause_s, self._probe)
        self._watch = HealthWatch(self._channel, self.name, self._health_changed)
        self._watch_lock = threading.Lock()
        self._is_watched = False
        self._profile: ModuleProfile | None = None
        self._times_lost = 0
        self._profile_lock = threading.Lock()
        self._asking = threading.Lock()

    def close(self) -> None:
        with self._watch_lock:
            self._is_watched = True  # so that it is not started any more
            self._watch.close()
        self._channel.close()

    def allow_calls(self, concurrency: int) -> None:
        """Let so many calls be made at once."""
        self._slots.allow(concurrency)

    def call(self, make: Callable[[float], _Answer], context: ModuleContext) -> _Answer:
        """Make a call and return its answer.

        1. Wait while the module is down: ``context.wait_s`` at most, and no longer than the stream's time budget.
        2. Wait for one of the module's slots, within the timeout.
        3. Call, with what is left of the timeout and of the budget, and tell the breaker how it went.

        :param make: makes the call, with this timeout in seconds.
        :raises ModuleDown: the module did not come back.
        :raises ModuleUnavailable: the call may succeed later.
        :raises ModuleFailed: it never will.
        :raises TimeBudgetSpent: the stream's time is over.
        """
        self._await_module(context)
        timeout_s = min(context.timeout_s, _left_s(context))
        begun = time.monotonic()
        if not self._slots.acquire(timeout_s):
            raise ModuleUnavailable(
                f"{self.name}: {self._slots.limit} other calls of this process did not end within "
                f"{timeout_s:g} s; see the setting module_concurrency",
                error_type="RESOURCE_EXHAUSTED",
            )
        try:
            left_s = max(timeout_s - (time.monotonic() - begun), 0.001)
            # A call that had less time than its node allows says nothing about the module if it times out.
            had_its_time = context.deadline is None and left_s > _MOST_OF_IT * timeout_s
            return self._call(make, left_s, timeout_s, had_its_time=had_its_time)
        finally:
            self._slots.release()

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:
        """Return what the module says about itself. It is asked once, and again after the connection was lost.

        :param context: of the call that depends on it, which waits while the module is down; None: nothing waits.
        :raises ModuleDown: the module did not come back.
        :raises ModuleUnavailable: it did not answer.
        :raises ModuleFailed: it answered with an error.
        """
        known = self._profile
        if known is not None:
            return known
        with self._asking:
            return self._profile or self._ask_profile(context)

    def health(self) -> tuple[Health, str]:
        """Ask the module how it is now; return that, and why it did not answer."""
        return check_health(self._channel, self._limits.answer_s)

    @property
    def held_back(self) -> str:
        """Why calls are held back; empty: they are not."""
        return self._breaker.reason

    def _call(
        self, make: Callable[[float], _Answer], timeout_s: float, allowed_s: float, *, had_its_time: bool = True
    ) -> _Answer:
        """Call, and tell the breaker how it went. ``allowed_s`` is the timeout as people know it."""
        try:
            answer = make(timeout_s)
        except grpc.RpcError as error:
            translated = error_of_status(error, self.name, allowed_s)
            if error.code() not in NOT_THROUGH:
                self._breaker.got_through()
            elif had_its_time or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                self._forget_profile()
                self._breaker.failed(str(translated))
            raise translated from None
        self._breaker.got_through()
        return answer

    def _ask_profile(self, context: ModuleContext | None) -> ModuleProfile:
        if context is not None:
            self._await_module(context)
        answer_s, times_lost = self._limits.answer_s, self._times_lost
        asked = self._call(lambda timeout_s: ask_registration(self.stub, timeout_s), answer_s, answer_s)
        with self._profile_lock:
            # An answer from before the connection was lost is used once, and not kept.
            if times_lost == self._times_lost:
                self._profile = asked
        return asked

    def _await_module(self, context: ModuleContext) -> None:
        self._start_watch()
        self._breaker.admit(min(context.wait_s, _left_s(context)))

    def _probe(self) -> str:
        health, reason = self.health()
        self._forget_profile()
        if health in (Health.SERVING, Health.UNWATCHED):
            return ""
        return reason or f"it says that it is {health}"

    def _health_changed(self, before: Health, now: Health) -> None:
        if now is Health.NOT_SERVING:
            self._breaker.trip("it says that it is not serving")
        if before is not Health.UNKNOWN:
            self._forget_profile()

    def _forget_profile(self) -> None:
        with self._profile_lock:
            self._profile = None
            self._times_lost += 1

    def _start_watch(self) -> None:
        if self._is_watched:
            return
        with self._watch_lock:
            if not self._is_watched:
                self._is_watched = True
                self._watch.start()


def _left_s(context: ModuleContext) -> float:
    if context.deadline is None:
        return float("inf")
    left_s = context.deadline - time.monotonic()
    if left_s <= 0:
        raise TimeBudgetSpent(f"node {context.node_id}")
    return left_s


@dataclass(slots=True)
class _Shared:
    connection: Connection
    concurrency: list[int] = field(default_factory=list)
    """Of each user: how many calls it allows at once."""


# By process, since a forked child cannot use the connections of its parent.
_open: dict[tuple[int, str, ChannelSecurity, ConnectionLimits], _Shared] = {}
_lock = threading.Lock()


class SharedConnection:
    """A share in the connection of this process to a module. The last one that is closed closes the connection."""

    def __init__(
        self, target: str, security: ChannelSecurity | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        limits = limits or ConnectionLimits()
        self._concurrency = limits.concurrency
        # Users that differ in their concurrency alone share the connection, or each would have a breaker of its own.
        self._key = (os.getpid(), target, security or ChannelSecurity(), replace(limits, concurrency=0))
        self._is_closed = False
        with _lock:
            shared = _open.get(self._key)
            if shared is None:
                shared = _open[self._key] = _Shared(Connection(*self._key[1:]))
            shared.concurrency.append(self._concurrency)
            shared.connection.allow_calls(max(shared.concurrency))
        self.connection = shared.connection

    def close(self) -> None:
        with _lock:
            if self._is_closed:
                return
            self._is_closed = True
            shared = _open[self._key]
            shared.concurrency.remove(self._concurrency)
            if shared.concurrency:
                shared.connection.allow_calls(max(shared.concurrency))
                return
            del _open[self._key]
        shared.connection.close()


def held_back_modules() -> dict[str, str]:
    """Return the gRPC modules that this process does not call because they are down, each with the reason."""
    with _lock:
        connections = [shared.connection for shared in _open.values()]
    return {each.name: each.held_back for each in connections if each.held_back}


def module_security(settings: Settings) -> ChannelSecurity:
    """Return how the modules of this installation are reached. They do not get the token of our own servers."""
    token = settings.module_token.get_secret_value() if settings.module_token else ""
    return ChannelSecurity(
        settings.module_ca_file, settings.module_client_cert_file, settings.module_client_key_file, token
    )


def module_limits(settings: Settings) -> ConnectionLimits:
    """Return how the modules of this installation are called."""
    return ConnectionLimits(
        settings.module_concurrency,
        settings.module_breaker_failures,
        settings.module_breaker_pause_s,
        settings.module_answer_s,
    )
