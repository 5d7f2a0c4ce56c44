"""What every local server has in common: the stack starts, checks and stops them all through this."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pipestream.local.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pipestream.local.spec import Ports, StackSpec
    from pipestream.local.state import Secrets
    from pipestream.local.tools import Report


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server lives: the stack's folder, its real ports and its secrets."""

    spec: StackSpec
    ports: Ports
    secrets: Secrets

    @property
    def folder(self) -> Path:
        return self.spec.folder

    def data(self, name: str) -> Path:
        return self.folder / "data" / name

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a server, and the variables that it needs in addition to this process's."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]

    def full_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


class Server(ABC):
    """One server process. Methods are called in the order in which they are defined here."""

    name: str
    port_names: ClassVar[tuple[str, ...]]
    needs: ClassVar[tuple[str, ...]] = ()
    stop_signal: ClassVar[int] = signal.SIGTERM
    stop_timeout_s: ClassVar[float] = 20.0
    # A server that ends is noticed at once. This timeout is for a server that starts on a busy machine.
    ready_timeout_s: ClassVar[float] = 180.0

    def __init__(self, site: Site) -> None:
        self.site = site

    def stop_limit_s(self) -> float:
        """Return how long it may take to stop; then it is killed."""
        return self.stop_timeout_s

    @property
    def port(self) -> int:
        """The port clients use, the first of ``port_names``."""
        port: int = getattr(self.site.ports, self.port_names[0])
        return port

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.site.log(self.name)

    @abstractmethod
    def fetch(self, report: Report) -> None:
        """Download or build programs and libraries; fast when they are cached. Nothing runs yet."""

    def initialise(self) -> None:  # noqa: B027 - most servers need it, none must
        """Create data folders and configuration; keeps existing data."""

    @abstractmethod
    def launch(self) -> Launch:
        """Return how to start it."""

    @abstractmethod
    def check(self) -> None:
        """Talk to it as a client would; any exception means that it is not ready."""

    def furnish(self) -> None:  # noqa: B027 - most servers need nothing
        """Create what clients expect in a ready server; keeps what exists."""
