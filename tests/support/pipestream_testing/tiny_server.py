"""A small server with the telemetry of the product's own: ``python -m pipestream_testing.tiny_server PORT FOLDER``.

It answers ``/health`` and ``/metrics``, counts a record for every request of its health, and notes in its folder how it
began and ended. A file ``sick`` in the folder makes it hang, as it says, a file ``waiting`` makes it wait for something
outside, and a file ``broken`` keeps it from starting.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pipestream.telemetry import metrics
from pipestream.telemetry.endpoint import TelemetryEndpoint
from pipestream.telemetry.health import Health


def main() -> int:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    if (folder / "broken").exists():
        print("tiny server: broken", flush=True)
        return 3
    # Blocked before there are other threads: a signal that another thread gets does not wake this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def find_health() -> Health:
        metrics.MESSAGES_PROCESSED.labels(queue="intake.tiny", status="success").inc()
        is_sick, is_waiting = (folder / "sick").exists(), (folder / "waiting").exists()
        details = {"pid": os.getpid()} | ({"problems": ["the broker is away"]} if is_waiting else {})
        return Health(not is_sick and not is_waiting, details, is_alive=not is_sick)

    # Before it answers: whoever has seen it healthy finds the note.
    note(folder, f"begins {os.getpid()}")
    with TelemetryEndpoint("127.0.0.1", port, find_health):
        print(f"tiny server: ready on {port}", flush=True)
        signal.sigwait({signal.SIGTERM})
    note(folder, f"ends {os.getpid()}")
    return 0


def note(folder: Path, text: str) -> None:
    with (folder / "notes").open("a") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
