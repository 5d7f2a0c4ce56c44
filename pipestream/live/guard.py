"""The guard of a server: ``python -m pipestream.live.guard FOLDER``, with the server's spec on standard input.

A guard starts its server, and starts it again when it dies. It runs on its own, so that a task of Airflow can end and
the next one can take over without a pause in service. Owners are open connections to the guard's socket. The kernel
closes those of a process that dies, however it dies. A server without an owner is stopped:

- at once, when its last owner says ``stop``;
- after ``adopt_within_s``, when its last owner said ``leave``: the next owner is expected;
- after ``lost_within_s``, when its last owner died.

If the guard itself is killed, the kernel sends SIGTERM to the server.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from pipestream.live import launch
from pipestream.live.desk import Desk
from pipestream.live.spec import Place, ServerSpec
from pipestream.local.process import ProcessRecord, kill_process, record_process, stop_process

_POLL_S = 0.2

log = logging.getLogger("pipestream.guard")


class Guard:
    """Keeps one server running for as long as its desk says that somebody wants it."""

    def __init__(self, spec: ServerSpec, place: Place, desk: Desk) -> None:
        self._spec = spec
        self._place = place
        self._desk = desk
        self._process: subprocess.Popen[bytes] | None = None
        self._record: ProcessRecord | None = None
        self._started = 0.0
        self._next_start = 0.0
        self._pause_s = spec.backoff_s
        self._is_log_unbounded = False

    def run(self) -> None:
        """Return when nobody wants the server any more, and it has ended."""
        while self._desk.is_wanted():
            if self._desk.take_restart_request():
                self._stop("restarting %s, as its owner asked")
            self._start_if_due()
            self._notice_end()
            self._bound_log()
            self._desk.wait(_POLL_S)
        self._stop("stopping %s: nobody owns it")

    def _start_if_due(self) -> None:
        if self._process is not None or time.monotonic() < self._next_start:
            return
        # In this thread: the kernel ends the server with the thread that started it.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", launch.__file__, str(os.getpid()), *self._spec.command],
            env={**os.environ, **self._spec.environment},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._record = record_process(self._process.pid)
        self._started = time.monotonic()
        self._desk.note_start(self._process.pid)
        log.info("%s started as process %d", self._spec.name, self._process.pid)

    def _notice_end(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        code = self._process.returncode
        if self._record is not None:
            kill_process(self._record)  # what the server started, and left behind
        self._process = self._record = None
        if time.monotonic() - self._started >= self._spec.steady_s:
            self._pause_s = self._spec.backoff_s
        log.warning("%s ended with %s; starting again in %g s", self._spec.name, _name_code(code), self._pause_s)
        self._desk.note_end(_name_code(code))
        self._next_start = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._spec.backoff_max_s)

    def _bound_log(self) -> None:
        """Begin a log again that has become large.

        The server keeps the file open, so the file stays and its content is moved. What is said in the moment between
        the copy and the cut is lost.
        """
        file = self._place.log(self._spec.key)
        try:
            if file.stat().st_size > self._spec.log_bytes:
                shutil.copyfile(file, self._place.old_log(self._spec.key))
                os.truncate(file, 0)
        except OSError as error:
            # Said once: this goes into the same log.
            if not self._is_log_unbounded:
                log.warning("%s cannot be begun again: %s", file, error)
            self._is_log_unbounded = True

    def _stop(self, why: str) -> None:
        if self._process is None or self._record is None:
            return
        log.info(why, self._spec.name)
        if not stop_process(self._record, stop_signal=signal.SIGTERM, timeout_s=self._spec.stop_timeout_s):
            log.warning("%s did not end in %g s and was killed", self._spec.name, self._spec.stop_timeout_s)
        self._process.poll()
        self._process = self._record = None
        self._desk.note_end("stopped")


def _name_code(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def main() -> int:
    """Become a daemon, say so by ending the first process, and guard the server."""
    place = Place(Path(sys.argv[1]))
    spec = ServerSpec.from_json(sys.stdin.read())
    desk = Desk(spec, place.socket(spec.key))
    # The first process ends when the socket answers. Its parent knows by that, and has nothing to collect later.
    if os.fork():
        os._exit(0)
    _redirect(place.log(spec.key))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: desk.close_down())
    try:
        with desk:
            Guard(spec, place, desk).run()
    except Exception:
        log.exception("the guard of %s failed", spec.name)
        raise
    return 0


def _redirect(log_file: Path) -> None:
    """Send everything that guard and server say to one file."""
    out = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((0, nothing), (1, out), (2, out)):
        os.dup2(target, number)
    os.close(out)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
