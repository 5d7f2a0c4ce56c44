"""Keep the servers of the tests up until Ctrl-C. Test runs during that time use them and do not stop them."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

from pipestream.local import Stack, load_spec

# The same stack as in tests/conftest.py. Every user of it holds a lock, and the last one to leave stops it.
FOLDER = Path(__file__).resolve().parent.parent / ".pipestream" / "test"


def main() -> None:
    spec = load_spec(profile="full", folder=FOLDER, free_ports=True, durable=False)
    with suppress(KeyboardInterrupt), Stack(spec).shared(print):
        print("the servers of the tests are up; Ctrl-C stops them, or leaves that to a test run that still uses them")
        signal.pause()


if __name__ == "__main__":
    main()
