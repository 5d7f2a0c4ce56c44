"""A gate in a graph: documents wait at it until the test opens it, so that the test sees a run while it works."""

from __future__ import annotations

from pathlib import Path

from pipestream.modules.module import ModuleContext
from pipestream.wire import PipeDoc
from pipestream_testing.steps import pass_on
from pipestream_testing.waiting import wait_until

DEADLINE_S = 3000.0
"""A run takes seconds to come to the gate; on a machine with much else to do, a quarter of an hour was seen."""


class Gate:
    """A folder that the test and the module share. The gate is closed until it is opened."""

    def __init__(self, folder: Path) -> None:
        self._arrived = folder / "arrived"
        self._open = folder / "open"

    def open(self) -> None:
        self._open.touch()

    def close(self) -> None:
        """Close the gate; whoever arrived before is forgotten."""
        self._open.unlink(missing_ok=True)
        self._arrived.unlink(missing_ok=True)

    def wait_for_arrival(self) -> None:
        wait_until(self._arrived.exists, "no document came to the gate", timeout_s=DEADLINE_S, poll_s=0.1)

    def go_through(self) -> None:
        self._arrived.touch()
        wait_until(self._open.exists, "the gate stayed closed", timeout_s=DEADLINE_S, poll_s=0.1)


def wait_at_gate(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Pass the document on when the gate is open. The node's config names its folder."""
    Gate(Path(context.config["gate"])).go_through()
    return pass_on(document, context)
