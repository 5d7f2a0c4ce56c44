"""What happens at a named point of ``pipestream.faults`` when a test asks for it.

``PIPESTREAM_FAULT=POINT=ACTION[@N]`` acts the Nth time the point is reached (the first, unless N is given):
``kill`` (SIGKILL, as the kernel would; ``kill:SECONDS`` so much later, wherever the process is then), ``stop``
(SIGSTOP, as a paused machine would), ``fail`` (a transient error) or ``wait:FILE`` (create FILE.reached and continue
when FILE.go is there, so that a test can break a server meanwhile).
With ``PIPESTREAM_FAULT_ONCE=FILE`` it acts only while FILE does not exist, and creates it: a retry then goes through.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from pipestream.errors import TransientError
from pipestream.faults import ALL_POINTS, ONCE_VARIABLE, VARIABLE

# A test that never opens the gate has failed; its process must not stay forever.
_WAIT_LIMIT_S = 300.0
_WAIT_POLL_S = 0.02

_reached: Counter[str] = Counter()


class InjectedFault(TransientError):
    """A fault that a test asked for."""


def act(point: str, fault: str) -> None:
    """Act if the fault is for this point, and for this time that it is reached."""
    wanted, _, rest = fault.partition("=")
    if wanted not in ALL_POINTS:
        raise ValueError(f"{VARIABLE} names {wanted!r}; the points are {', '.join(ALL_POINTS)}")
    if wanted != point:
        return
    action, _, nth = rest.partition("@")
    _reached[point] += 1
    if _reached[point] != int(nth or 1) or not _is_first():
        return
    name, _, argument = action.partition(":")
    match name:
        case "kill":
            _kill(float(argument or 0))
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "fail":
            raise InjectedFault(f"fault injected at {point}")
        case "wait":
            _wait(argument)
        case _:
            raise ValueError(f"{VARIABLE} has action {action!r}; use kill, kill:SECONDS, stop, fail or wait:FILE")


def _kill(delay_s: float) -> None:
    if not delay_s:
        os.kill(os.getpid(), signal.SIGKILL)
    timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True  # a process that ends before its time ends in peace
    timer.start()


def _wait(file: str) -> None:
    if not file:
        raise ValueError(f"{VARIABLE}: wait needs a file, as in wait:FILE")
    Path(f"{file}.reached").touch()
    deadline = time.monotonic() + _WAIT_LIMIT_S
    while not Path(f"{file}.go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody created {file}.go within {_WAIT_LIMIT_S:g} s")
        time.sleep(_WAIT_POLL_S)


def _is_first() -> bool:
    marker = os.environ.get(ONCE_VARIABLE)
    if not marker:
        return True
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
