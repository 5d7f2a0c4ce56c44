"""Run several worker processes behind one port: start them, watch them, restart what died, stop them.

The workers listen on the same port (SO_REUSEPORT), so that the kernel spreads connections over them. Each has also a
port of its own, which the parent reserves for as long as it lives: a worker that is restarted keeps it.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipestream.engine_server.place import WorkerPlace, holder_of_child
from pipestream.errors import SettingsInvalid

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
# A worker that lived for so long starts again at once.
_STEADY_S = 60.0
_POLL_S = 0.1
_MOST_DEAD = 16
FAILED_FOR_GOOD = 2
"""The exit code of a command that fails for good: see ``pipestream.cli.main``."""

Command = Callable[[WorkerPlace], Sequence[str]]


@dataclass(slots=True)
class _Worker:
    index: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    starts_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    dead_holders: list[str] = field(default_factory=list)


def run_workers(command: Command, count: int, *, listen_host: str, advertised_host: str, stop_s: float) -> int:
    """Run workers until SIGTERM or SIGINT, then stop them gracefully. Call it in the main thread.

    :param command: gives the command line of a worker at a place. Its standard input is a pipe of this process, which
        is closed when this process dies: a worker that sees its end must stop.
    :param listen_host: where the workers listen; the own ports are reserved there.
    :param advertised_host: the host under which peers on other machines reach this one.
    :param stop_s: how long a worker may take to stop; then it is killed. ``worker_stop_s`` has the arithmetic.
    :return: 0 if all workers stopped by themselves when asked to; 2 if one failed for good, as commands do; else 1.
    """
    stopping = threading.Event()
    with reserved_ports(listen_host, [0] * count) as ports, _handling_signals(stopping.set):
        peers = tuple(f"{advertised_host}:{port}" for port in ports)
        workers = [_Worker(index) for index in range(count)]
        has_failed = False
        try:
            while not has_failed and not stopping.wait(_POLL_S):
                has_failed = any(_has_failed(worker) for worker in workers)
                for worker in () if has_failed else workers:
                    _look_after(worker, command, peers)
        finally:
            is_clean = _stop_all(workers, stop_s)
    if has_failed:
        return FAILED_FOR_GOOD
    return 0 if is_clean else 1


def _has_failed(worker: _Worker) -> bool:
    """Tell whether a worker ended with an error that a restart cannot help, such as a setting that cannot be used."""
    if worker.process is None or worker.process.poll() != FAILED_FOR_GOOD:
        return False
    log.error("worker %d failed for good, so the others are stopped as well", worker.index)
    return True


def _look_after(worker: _Worker, command: Command, peers: tuple[str, ...]) -> None:
    """Start a worker that is not running, as soon as its pause is over."""
    now = time.monotonic()
    process = worker.process
    if process is not None:
        if process.poll() is None:
            return
        if now - worker.started_at > _STEADY_S:
            worker.pause_s = _FIRST_PAUSE_S
        worker.starts_at = now + worker.pause_s
        log.error("worker %d ended with %s; again in %.1f s", worker.index, process.returncode, worker.pause_s)
        worker.pause_s = min(2 * worker.pause_s, _LONGEST_PAUSE_S)
        worker.dead_holders = [
            *worker.dead_holders[1 - _MOST_DEAD :],
            holder_of_child(process.pid, peers[worker.index]),
        ]
        worker.process = None
        _close_pipe(process)
    if now >= worker.starts_at:
        place = WorkerPlace(worker.index, len(peers), peers, tuple(worker.dead_holders))
        worker.process = subprocess.Popen(list(command(place)), stdin=subprocess.PIPE)
        worker.started_at = now


def _stop_all(workers: Sequence[_Worker], timeout_s: float) -> bool:
    """Ask all workers to stop, end those that do not, and tell whether none had to be ended."""
    running = [worker.process for worker in workers if worker.process is not None]
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    is_clean = True
    for process in running:
        try:
            is_clean = process.wait(max(0.0, deadline - time.monotonic())) == 0 and is_clean
        except subprocess.TimeoutExpired:
            log.error("the worker with pid %d does not stop within %g s, and is killed", process.pid, timeout_s)
            process.kill()
            process.wait()
            is_clean = False
        _close_pipe(process)
    return is_clean


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


@contextlib.contextmanager
def reserved_ports(host: str, ports: Sequence[int]) -> Iterator[list[int]]:
    """Bind ports without listening: with SO_REUSEPORT the workers can, and nobody else gets them meanwhile.

    :param ports: 0 takes a free one.
    :raises SettingsInvalid: another program has a port.
    """
    with contextlib.ExitStack() as stack:
        yield [_reserve(stack, host, port) for port in ports]


def _reserve(stack: contextlib.ExitStack, host: str, port: int) -> int:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        reserved = stack.enter_context(socket.socket(family, kind, protocol))
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(address)
    except OSError as error:
        raise SettingsInvalid(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return int(reserved.getsockname()[1])


@contextlib.contextmanager
def _handling_signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
