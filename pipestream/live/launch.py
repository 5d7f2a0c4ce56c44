"""Become a server that ends with its guard: ``python launch.py GUARD_PID COMMAND [ARGUMENT ...]``.

Imports nothing of the product, so that the server starts without delay.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    guard, *command = sys.argv[1:]
    if sys.platform == "linux":
        # The kernel sends SIGTERM when the guard ends, even by SIGKILL. It stays set for the program below.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(guard):
        sys.exit("the guard ended before the server began")
    try:
        os.execvp(command[0], command)  # noqa: S606 - a server needs no shell
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error}")


if __name__ == "__main__":
    main()
