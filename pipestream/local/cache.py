"""The user's cache: what was fetched or built once serves every checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/pipestream``, or ``~/.cache/pipestream``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pipestream"


def provide(name: str, make: Callable[[Path], None]) -> Path:
    """Return the cached folder ``name``, created by ``make(empty folder)`` if it is not there.

    A folder is complete or absent: it gets its name only when ``make`` has returned. One process creates it. The
    others wait for that one, also in other checkouts.
    """
    final = cache_folder() / name
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _locked(final.with_name(f"{name}.lock")):
        if final.is_dir():
            return final
        made = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=final.parent))
        try:
            make(made)
            made.chmod(0o755)
            made.rename(final)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    return final


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a stack's folder, so that two commands do not start or stop it at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "stack.lock"):
        yield
