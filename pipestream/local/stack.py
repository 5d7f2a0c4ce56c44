"""A stack of local servers as child processes: start, look at, stop, and break on purpose."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pipestream.errors import StackError
from pipestream.local.airflow import ADMIN, airflow_environment, prepare_airflow
from pipestream.local.cache import locked_folder
from pipestream.local.ports import refuse_taken_ports, resolve_ports
from pipestream.local.process import find_process, kill_process
from pipestream.local.roster import list_servers, setting_values
from pipestream.local.server import Server, Site
from pipestream.local.spec import PORT_NAMES
from pipestream.local.starter import Starter, stop_servers
from pipestream.local.state import (
    NO_SECRETS,
    StackState,
    load_secrets,
    read_state,
    state_file,
    toml_text,
    write_private,
    write_state,
)
from pipestream.project import dags_folder, make_project
from pipestream.settings import CONFIG_VARIABLE, STACK_PREFIX, Settings, load_settings
from pipestream.signals import signals_as_exit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from pipestream.local.spec import StackSpec
    from pipestream.local.tools import Report

ServerState = Literal["running", "unresponsive", "crashed", "stopped"]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as it is now.

    ``crashed``: it was started and is gone; ``unresponsive``: it runs, but does not answer.
    """

    name: str
    state: ServerState
    pid: int | None
    address: str
    log: Path


def _quiet(_line: str) -> None:
    """Report nothing."""


class Stack:
    """The servers of one spec, with all their state in ``spec.folder``.

    Commands in different processes agree through the state file there; its lock lets one of them at a time
    start or stop servers.
    """

    def __init__(self, spec: StackSpec) -> None:
        self.spec = spec
        self._state_file = state_file(spec.folder)
        self.config_file = spec.folder / "stack.toml"

    # -- start, stop, look ------------------------------------------------------------------------

    def fetch(self, report: Report = _quiet) -> list[str]:
        """Download or build every server's programs into the user's cache, and return the servers' names.

        :raises StackError: one could not be fetched or built; the message has the tool's last lines.
        """
        servers = self._list(Site(self.spec, self.spec.ports, NO_SECRETS))
        _fetch(servers, report)
        return [server.name for server in servers]

    def up(self, report: Report = _quiet, *, names: Collection[str] | None = None) -> list[str]:
        """Start every server that is not running, or those called ``names``, and return which it started.

        On failure, what this call started is stopped again. A project folder without ``dags/`` gets them first.

        :raises StackError: a server could not be found or started; the message has its last log lines. Or the folder
            holds a stack of another profile.
        """
        with locked_folder(self.spec.folder):
            live = self._live()
            site = self._plan_site(live)
            wanted = [server for server in self._list(site) if names is None or server.name in names]
            missing = [server for server in wanted if server.name not in live]
            if not missing:
                report("already up")
                return []
            _fetch(missing, report)
            self._clear_leftovers(missing)
            refuse_taken_ports(site.ports, [name for server in missing for name in server.port_names])
            self._remember(site)
            if make_project(self.spec.project):
                report(f"wrote {dags_folder(self.spec.project)} with the sample graph")
            Starter(self._state_file, report).start(missing)
            return [server.name for server in missing]

    def down(self, report: Report = _quiet, *, names: Collection[str] | None = None) -> list[str]:
        """Stop all servers, or those called ``names``, and return which were stopped. Data stays."""
        if not self._state_file.exists():
            report("nothing is running")
            return []
        with locked_folder(self.spec.folder):
            state = read_state(self._state_file)
            assert state is not None, "a state file is never removed"
            wanted = [name for name in state.processes if names is None or name in names]
            servers = [server for server in self._list(self._site(state)) if server.name in wanted]
            stop_servers(servers, self._state_file, report)
            if not servers:
                report("nothing is running")
            return [server.name for server in servers]

    def status(self) -> list[ServerStatus]:
        """Return the current state of each server; sends a request to every live one."""
        state = read_state(self._state_file)
        # If nothing was ever started there are no secrets yet, and showing the status must not create any.
        site = self._site(state) if state else Site(self.spec, self.spec.ports, NO_SECRETS)
        return [self._status_of(server, state) for server in self._list(site)]

    @contextmanager
    def running(self, report: Report = _quiet, *, names: Collection[str] | None = None) -> Iterator[Stack]:
        """Start the stack, or the servers called ``names``, for the block.

        At its end, stop what this call started, also on Ctrl-C and SIGTERM.
        """
        started: list[str] = []

        def stop() -> None:
            if started:
                ours, started[:] = list(started), []
                self.down(report, names=ours)

        with signals_as_exit():
            atexit.register(stop)
            try:
                started += self.up(report, names=names)
                yield self
            finally:
                stop()
                atexit.unregister(stop)

    @contextmanager
    def shared(self, report: Report = _quiet, *, names: Collection[str] | None = None) -> Iterator[Stack]:
        """Start the stack, or the servers called ``names``, for the block, shared with other processes.

        The last process to leave stops all servers, whichever process started them, and removes their data. Two test
        runs of one checkout share a stack, and the next run stops what a killed run left behind. The data is removed
        because a broker with the thousands of topics of earlier runs would need minutes to start.
        """
        self.spec.folder.mkdir(parents=True, exist_ok=True)
        with (self.spec.folder / "users.lock").open("w") as users, signals_as_exit():
            fcntl.flock(users, fcntl.LOCK_SH)
            try:
                self.up(report, names=names)
                yield self
            finally:
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    report("left up: another process uses it")
                else:
                    self.down(report)
                    data = self.spec.folder / "data"
                    if data.exists():
                        shutil.rmtree(data)

    # -- what clients need ------------------------------------------------------------------------

    def settings(self, **overrides: Any) -> Settings:
        """Return the product's settings for this stack. It must have been started once."""
        absent = dict.fromkeys(("s3_endpoint", "s3_access_key", "s3_secret_key"))
        return load_settings(**{**absent, **setting_values(self.site()), **overrides})

    def environment(self) -> dict[str, str]:
        """Return the environment for child processes: this process's, configured for the stack."""
        return {**os.environ, **airflow_environment(self.site()), **self._aim()}

    def prepare_airflow(self) -> dict[str, str]:
        """Create Airflow's home and database, without starting it; return the environment for ``airflow``."""
        with locked_folder(self.spec.folder):
            prepare_airflow(self.site())
        return self.environment()

    def airflow_login(self) -> tuple[str, str]:
        """Return user and password of Airflow's web pages."""
        return ADMIN, self.site().secrets.airflow_password

    def server(self, name: str) -> ServerHandle:
        """Return a handle on one server, to break and repair it.

        :raises StackError: this stack has no server of that name.
        """
        names = [server.name for server in self._list(self.site())]
        if name not in names:
            raise StackError(f"this stack has no server {name!r}; it has {', '.join(names)}")
        return ServerHandle(self, name)

    def site(self) -> Site:
        """Return where the servers live now.

        :raises StackError: the stack was never started, so its ports are not known.
        """
        state = read_state(self._state_file)
        if state is None:
            raise StackError(f"no stack was started in {self.spec.folder}; run `pipestream up`")
        return self._site(state)

    # -- inner workings ---------------------------------------------------------------------------

    def _site(self, state: StackState) -> Site:
        """The site of the stack as it was started, which may be another profile than this spec's."""
        spec = replace(self.spec, profile=state.profile, airflow=state.airflow, live=state.live)
        return Site(spec, state.ports, load_secrets(self._secrets_file))

    @property
    def _secrets_file(self) -> Path:
        return self.spec.folder / "secrets.json"

    def _list(self, site: Site) -> list[Server]:
        return list_servers(site, self.config_file)

    def _live(self) -> set[str]:
        state = read_state(self._state_file)
        if state is None:
            return set()
        return {name for name, record in state.processes.items() if find_process(record)}

    def _plan_site(self, live: set[str]) -> Site:
        """Choose ports: live servers keep theirs, the others get what the spec asks for."""
        secrets = load_secrets(self._secrets_file)
        state = read_state(self._state_file)
        spec = self.spec
        if state and state.profile != spec.profile:
            raise StackError(
                f"the stack in {spec.folder} is {state.profile}; one that is {spec.profile} keeps its documents and "
                f"leases elsewhere and would not find those of this one. Give it a folder of its own with "
                f"{STACK_PREFIX}FOLDER, or stop this one and remove its folder"
            )
        if state and live:
            # Running servers stay part of the stack: `up` without Airflow must not orphan a running Airflow.
            spec = replace(spec, airflow=spec.airflow or state.airflow, live=spec.live or state.live)
        servers = self._list(Site(spec, spec.ports, secrets))
        wanted = spec.ports
        if state:
            kept = {port for server in servers if server.name in live for port in server.port_names}
            wanted = replace(wanted, **{port: getattr(state.ports, port) for port in kept})
        ports = resolve_ports(wanted, PORT_NAMES, remembered=state.ports if state else None)
        return Site(spec, ports, secrets)

    def _clear_leftovers(self, missing: Sequence[Server]) -> None:
        """End the processes that crashed servers have left behind, because they would hold the ports."""
        state = read_state(self._state_file)
        for server in missing:
            if state and (record := state.processes.get(server.name)):
                kill_process(record)

    def _remember(self, site: Site) -> None:
        """Save the stack that is about to start, and the settings for it."""
        state = read_state(self._state_file)
        processes = {
            name: record for name, record in (state.processes if state else {}).items() if find_process(record)
        }
        spec = site.spec
        state = StackState(spec.profile, spec.airflow, site.ports, processes, str(spec.project), spec.live)
        write_state(self._state_file, state)
        (site.folder / ".gitignore").write_text("*\n")
        write_private(self.config_file, toml_text(setting_values(site)))

    def _aim(self) -> dict[str, str]:
        return {CONFIG_VARIABLE: str(self.config_file)}

    def _status_of(self, server: Server, state: StackState | None) -> ServerStatus:
        record = state.processes.get(server.name) if state else None
        condition: ServerState = "stopped" if record is None else "crashed"
        pid = None
        if record and find_process(record):
            pid = record.pid
            try:
                server.check()
                condition = "running"
            except Exception:
                condition = "unresponsive"
        return ServerStatus(server.name, condition, pid, server.address, server.log)


class ServerHandle:
    """One server of a started stack, for tests that break it."""

    def __init__(self, stack: Stack, name: str) -> None:
        self._stack = stack
        self.name = name

    @property
    def pid(self) -> int | None:
        """Its process now, or None where it does not run."""
        state = read_state(self._stack._state_file)
        record = state.processes.get(self.name) if state else None
        return record.pid if record and find_process(record) else None

    def kill(self) -> None:
        """End it at once with SIGKILL, as a crash would; ``status`` shows it as crashed."""
        state = read_state(self._stack._state_file)
        record = state.processes.get(self.name) if state else None
        if record is None or find_process(record) is None:
            raise StackError(f"{self.name} is not running, so it cannot be killed")
        kill_process(record)

    def stop(self) -> None:
        """Stop it cleanly."""
        self._stack.down(names=[self.name])

    def start(self) -> None:
        """Start it again on the same port, with its data, and wait until it answers."""
        stack = self._stack
        with locked_folder(stack.spec.folder):
            server = next(server for server in stack._list(stack.site()) if server.name == self.name)
            if self.pid is None:
                Starter(stack._state_file, _quiet).start([server])


def _fetch(servers: Sequence[Server], report: Report) -> None:
    """Fetch two at a time, which is enough to compile one while the others are downloaded."""
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="fetch") as pool:
        list(pool.map(lambda server: server.fetch(report), servers))
