"""One process that serves a function for this one: start it, wait until it is ready, see how it ended, end it.

It cannot outlive its owner: its standard input is a pipe from here, and the kernel kills it when that is closed
(``serve.die_with``). Its folder can, if the owner is killed. So each folder has a file that its owner keeps locked, and
who starts a runtime removes the folders whose lock is free.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from pipestream.errors import ModuleFailed, ModuleUnavailable
from pipestream.modules.runtime.serve import CANNOT_IMPORT, READY_FILE
from pipestream.user import make_own_folder

log = logging.getLogger(__name__)

_OUTPUT_LINES = 40
_SHOWN_OUTPUT = 600
# Of the trace of a crash: how the server came to call the function says nothing about it.
_UNTOLD = ("/modules/runtime/", "<frozen runpy>", "Extension modules:")
_READ_BYTES = 64 * 1024
_LOOK_AGAIN_S = 0.02
_END_S = 5.0
# A folder without a lock may be one that is just being made.
_YOUNG_S = 60.0
# Linux keeps 108 bytes for a socket's path, with the closing zero.
_MAX_PATH = 107


class RuntimeProcess:
    """A child process behind a socket in a folder of its own. Use it from one thread at a time."""

    def __init__(self, target: str, memory_mb: int = 0) -> None:
        """Start the process; ``wait_until_ready`` says when it can be used.

        :raises ModuleUnavailable: there is no place for its socket, or no process can be started.
        """
        self._name = f"runtime:{target}"
        self._output: deque[str] = deque(maxlen=_OUTPUT_LINES)
        try:
            self._folder, self._lock = _make_folder()
            self.socket = self._folder / "runtime.sock"
            self._child = self._start(target, memory_mb)
        except OSError as error:
            raise ModuleUnavailable(f"{self._name}: no process can be started: {error}") from error
        assert self._child.stdout is not None, "it is a pipe"
        self._reader = threading.Thread(
            target=self._read_output, args=(self._child.stdout.fileno(),), name="runtime-output", daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return once it listens.

        :raises ModuleFailed: its function cannot be imported.
        :raises ModuleUnavailable: it ended, or took too long.
        """
        deadline = time.monotonic() + timeout_s
        while not ((self._folder / READY_FILE).exists() and self.socket.exists()):
            if self._child.poll() is not None:
                ended = self.describe_end()
                if self._child.returncode == CANNOT_IMPORT:
                    raise ModuleFailed(f"{self._name} cannot be served: {self._last_output()}")
                raise ModuleUnavailable(f"{self._name} did not start: its process {ended}")
            if time.monotonic() > deadline:
                raise ModuleUnavailable(f"{self._name} was not ready after {timeout_s:g} s")
            time.sleep(_LOOK_AGAIN_S)

    def ends_within(self, timeout_s: float) -> bool:
        """Tell whether it has ended, or does so in a moment."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout_s)
        return self._child.poll() is not None

    def describe_end(self) -> str:
        """Return how it ended, with the last lines that it wrote."""
        self._reader.join(1.0)
        code = self._child.poll()
        if code is None:
            how = "still runs"
        elif code < 0:
            how = f"was killed by {_signal_name(-code)}"
        else:
            how = f"ended with code {code}"
        shown = self._last_output()
        return f"{how}; its last output: {shown}" if shown else how

    def end(self) -> None:
        """Kill it with all processes that it started, and remove its folder. Can be called again."""
        if self._child.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_END_S)
        self._reader.join(1.0)
        self._close_pipes()
        shutil.rmtree(self._folder, ignore_errors=True)

    def forget(self) -> None:
        """Leave it to the process that started it: this one is a fork, and only has copies."""
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout, self._lock):
            if pipe is not None:
                with suppress(OSError, ValueError):
                    pipe.close()

    def _start(self, target: str, memory_mb: int) -> subprocess.Popen[bytes]:
        if len(os.fsencode(self.socket)) > _MAX_PATH:
            raise OSError(f"the path {self.socket} is too long for a socket; set TMPDIR to a shorter one")
        command = [sys.executable, "-m", "pipestream.modules.runtime.serve", target, "--socket", str(self.socket)]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        return subprocess.Popen(
            [*command, "--memory-mb", str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The modules of this process are those of the child, wherever they were found.
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            # Without a buffer: a fork would inherit the buffer's lock, held by the thread that reads here.
            bufsize=0,
            # A signal for the group of this process (Ctrl-C) is not for the child.
            start_new_session=True,
        )

    def _read_output(self, descriptor: int) -> None:
        started = b""
        with suppress(OSError):
            while data := os.read(descriptor, _READ_BYTES):
                *lines, started = (started + data).split(b"\n")
                started = started[-_READ_BYTES:]
                for line in lines:
                    text = line.decode("utf-8", "replace").rstrip()
                    self._output.append(text)
                    log.info("%s: %s", self._name, text)

    def _last_output(self) -> str:
        lines = [line for line in self._output if line and not any(part in line for part in _UNTOLD)]
        crash = next((number for number, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
        if crash is None:
            return " | ".join(lines)[-_SHOWN_OUTPUT:]
        return " | ".join(lines[max(0, crash - 3) :])[:_SHOWN_OUTPUT]  # the innermost call comes first


def _make_folder() -> tuple[Path, IO[str]]:
    base = Path(tempfile.gettempdir()) / f"pipestream-runtimes-{os.getuid()}"
    make_own_folder(base)
    _sweep(base)
    folder = Path(tempfile.mkdtemp(dir=base))
    lock = (folder / "owner").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder, lock


def _sweep(base: Path) -> None:
    """Remove the folders of owners that were killed."""
    for folder in base.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < _YOUNG_S:
                continue
            # Without that file the folder is not one of a runtime.
            with (folder / "owner").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
