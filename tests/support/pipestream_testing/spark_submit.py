"""A stand-in for spark-submit that is a program of its own, for tests of what starts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pipestream.drain.report import DrainReport
from pipestream.ledger import Tally

DRAINED = DrainReport("drained", "intake.files", "", 2, 0, Tally(12, {"happy-end": 12}), 1.5, "run-1", "g").to_fields()
"""What it tells of a drain, unless told otherwise."""

_PROGRAM = """#!{python}
import json, os, pathlib, signal, sys, time

folder = pathlib.Path({folder!r})
(folder / "call.json").write_text(json.dumps({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}))
told = json.loads((folder / "told.json").read_text())
print(told["says"], flush=True)
if told["outcome"] is not None:
    pathlib.Path(sys.argv[sys.argv.index("--outcome") + 1]).write_text(json.dumps(told["outcome"]))
if told["hang"]:
    def end(*_):
        (folder / "stopped").touch()
        if told["hang"] == "politely":
            sys.exit(143)
    signal.signal(signal.SIGTERM, end)
    (folder / "hangs").touch()
    while True:
        time.sleep(60)
sys.exit(told["exit_code"])
"""


class FakeSpark:
    """A spark-submit on the PATH that does as it is told and remembers how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "spark-submit"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)
        self.tell(DRAINED)

    def tell(self, outcome: object = None, exit_code: int = 0, hang: str = "", says: str = "") -> None:
        told = {"outcome": outcome, "exit_code": exit_code, "hang": hang, "says": says}
        (self.folder / "told.json").write_text(json.dumps(told))

    @property
    def was_called(self) -> bool:
        return (self.folder / "call.json").exists()

    @property
    def arguments(self) -> list[str]:
        return list(self._call["arguments"])

    @property
    def environment(self) -> dict[str, str]:
        return dict(self._call["environment"])

    @property
    def _call(self) -> dict[str, Any]:
        call: dict[str, Any] = json.loads((self.folder / "call.json").read_text())
        return call

    def option(self, name: str) -> str:
        """Return an option's value, which is the next argument or in one piece with it."""
        in_one = [each for each in self.arguments if each.startswith(f"{name}=")]
        return in_one[0].partition("=")[2] if in_one else self.arguments[self.arguments.index(name) + 1]
