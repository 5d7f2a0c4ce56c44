"""Start servers side by side, each when those it needs are ready. Stop first all that need others, then the rest."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from pipestream.errors import StackError
from pipestream.local.process import ProcessRecord, find_process, start_process, stop_process
from pipestream.local.state import StackState, read_state, write_state
from pipestream.local.tools import TAIL_LINES, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pipestream.local.server import Server

_POLL_S = 0.1
# Threads of this process change the state file in turn; other processes are kept out by the folder's lock.
_state_lock = threading.Lock()


class AbandonedError(StackError):
    """This server was given up because another one failed."""


class Starter:
    """One attempt to start some servers: all of them, or none."""

    def __init__(self, state_file: Path, report: Report) -> None:
        self._state_file = state_file
        self._report = report
        self._cancelled = threading.Event()

    def start(self, servers: Sequence[Server]) -> None:
        """Start all and return when every one answers.

        :raises StackError: one failed; the others have been stopped again.
        """
        self._report(f"starting {', '.join(server.name for server in servers)}")
        with ThreadPoolExecutor(max_workers=len(servers), thread_name_prefix="start") as pool:
            futures: dict[str, Future[None]] = {}
            try:
                for server in servers:  # in an order where needs come first
                    needed = [futures[name] for name in server.needs if name in futures]
                    futures[server.name] = pool.submit(self._start_one, server, needed)
                done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
                failed = next((future for future in done if future.exception()), None)
                if failed:
                    failed.result()
            except BaseException as error:
                self._cancelled.set()
                wait(futures.values())
                stop_servers(servers, self._state_file, lambda _: None)
                self._raise_cause(error, list(futures.values()))

    @staticmethod
    def _raise_cause(error: BaseException, futures: Sequence[Future[None]]) -> None:
        """Raise the first error, not the errors of servers that were given up because of it."""
        if isinstance(error, AbandonedError):
            causes = [future.exception() for future in futures]
            error = next((cause for cause in causes if cause and not isinstance(cause, AbandonedError)), error)
        raise error

    def _start_one(self, server: Server, needed: Sequence[Future[None]]) -> None:
        began = time.monotonic()
        for future in needed:
            if future.exception() is not None:
                raise AbandonedError(f"{server.name} was not started: a server it needs failed")
        if self._cancelled.is_set():
            raise AbandonedError(f"{server.name} was not started: another server failed")
        server.initialise()
        launch = server.launch()
        try:
            record = start_process(launch.argv, launch.full_environment(), server.log)
        except OSError as error:
            raise StackError(f"{server.name}: {launch.argv[0]} could not be started: {error}") from None
        change_state(self._state_file, lambda state: state.with_process(server.name, record))
        self._wait_until_ready(server, record)
        server.furnish()
        self._report(f"{server.name} is ready at {server.address} ({time.monotonic() - began:.1f} s)")

    def _wait_until_ready(self, server: Server, record: ProcessRecord) -> None:
        deadline = time.monotonic() + server.ready_timeout_s
        while True:
            try:
                server.check()
            except Exception as error:
                problem = error
            else:
                return
            if find_process(record) is None:
                raise StackError(f"{server.name} ended while it was starting\n{log_tail(server.log)}")
            if time.monotonic() > deadline:
                raise StackError(
                    f"{server.name} did not answer at {server.address} within {server.ready_timeout_s:.0f} s "
                    f"({problem})\n{log_tail(server.log)}"
                )
            if self._cancelled.wait(_POLL_S):
                raise AbandonedError(f"{server.name} was given up: another server failed")


def stop_servers(servers: Sequence[Server], state_file: Path, report: Report) -> None:
    """Stop servers side by side, those that need others first. A failure to stop one does not keep the others up."""
    dependents = [server for server in servers if server.needs]
    failures: list[BaseException] = []
    for wave in (dependents, [server for server in servers if not server.needs]):
        if wave:
            with ThreadPoolExecutor(max_workers=len(wave), thread_name_prefix="stop") as pool:
                futures = [pool.submit(_stop_one, server, state_file, report) for server in wave]
            failures += [failure for future in futures if (failure := future.exception())]
    if failures:
        raise failures[0]


def _stop_one(server: Server, state_file: Path, report: Report) -> None:
    state = read_state(state_file)
    record = state.processes.get(server.name) if state else None
    if record is None:
        return
    went = stop_process(record, stop_signal=server.stop_signal, timeout_s=server.stop_limit_s())
    change_state(state_file, lambda state: state.without_process(server.name))
    report(f"{server.name} stopped" if went else f"{server.name} did not stop by itself and was killed")


def change_state(file: Path, change: Callable[[StackState], StackState]) -> None:
    """Apply one change to the state file, safe among the threads of this process."""
    with _state_lock:
        state = read_state(file)
        assert state is not None, "the state file is written before the first server starts"
        write_state(file, change(state))


def log_tail(log: Path) -> str:
    """Return a log's last lines and its path, for an error message."""
    try:
        with log.open("rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - 16_384))
            lines = handle.read().decode(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        lines = []
    return "\n".join([*(f"  | {line}" for line in lines), f"the whole log: {log}"])
