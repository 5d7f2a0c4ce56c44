"""What is kept running, and where its files are."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipestream.user import make_own_folder

# Linux allows 107 bytes for the path of a Unix socket.
_LONGEST_PATH = 100


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server, and the rules by which its guard keeps it running.

    Two specs with the same name, command and environment mean the same server. So several owners can share one.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to those of the process that starts the guard."""
    adopt_within_s: float = 300.0
    """How long the server runs on without an owner after a hand-over."""
    lost_within_s: float = 60.0
    """How long the server runs on after its last owner died without a word."""
    stop_timeout_s: float = 30.0
    """How long the server may take to end by itself."""
    backoff_s: float = 1.0
    """First pause before a server that died is started again. Each is twice the one before."""
    backoff_max_s: float = 60.0
    steady_s: float = 60.0
    """A server that has run for so long starts again with the first pause."""
    log_bytes: int = 20 * 1024 * 1024
    """Size at which the log of server and guard is begun again. The one before it is kept."""

    @property
    def key(self) -> str:
        """Return the name of the server's files: the same for the same server."""
        told = json.dumps([self.name, self.command, dict(sorted(self.environment.items()))])
        return f"{self.name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServerSpec:
        values: dict[str, Any] = json.loads(text)
        return cls(**{**values, "command": tuple(values["command"])})


@dataclass(frozen=True, slots=True)
class Place:
    """The folder with the files of an installation's live servers. Servers of two folders never meet."""

    folder: Path

    def prepare(self) -> None:
        """Create the folders, for their owner alone: who can open a socket in them can stop a server.

        :raises PermissionError: one of them is not this user's.
        """
        try:
            for folder in (self.folder, self.socket_folder):
                make_own_folder(folder)
        except PermissionError as error:
            raise PermissionError(f"{error}; set live_folder to another folder") from None

    @property
    def socket_folder(self) -> Path:
        folder = self.folder.absolute()
        if len(os.fsencode(folder)) <= _LONGEST_PATH - 40:
            return folder
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"pipestream-{os.getuid()}-{digest}"

    def socket(self, key: str) -> Path:
        return self.socket_folder / f"{key}.sock"

    def sockets(self, name: str = "") -> list[Path]:
        """Return the sockets of all guards, or of those whose server has a name."""
        found = sorted(self.socket_folder.glob("*.sock"))
        return [path for path in found if not name or path.stem.rpartition("-")[0] == name]

    def lock(self, key: str) -> Path:
        return self.socket_folder / f"{key}.lock"

    def log(self, key: str) -> Path:
        """Return the file with the output of a server and of its guard."""
        return self.folder / f"{key}.log"

    def old_log(self, key: str) -> Path:
        """Return the file with the output before that."""
        return self.folder / f"{key}.old.log"
