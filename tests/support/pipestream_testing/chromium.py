"""A real Chromium for tests: the one on the PATH, else the one of Debian's packages, unpacked into the cache."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from pipestream.local.cache import provide
from pipestream.local.tools import run_tool

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_WHAT = "fetching Debian's packages of Chromium (elsewhere, install Chromium so that it is on the PATH)"


@dataclass(frozen=True, slots=True)
class Program:
    """Where Chromium is, and which variables it needs to find its libraries and fonts."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)


def find_chromium() -> Program:
    """Return a Chromium.

    :raises StackError: it is neither installed nor to be had as a Debian package; install Chromium.
    """
    for name in _NAMES:
        if found := shutil.which(name):
            return Program(Path(found))
    root = provide("chromium-debian", _unpack)
    # Also those in folders of their own, which an installed package finds by its run path.
    libraries = sorted({str(file.parent) for top in ("lib", "usr/lib") for file in (root / top).rglob("*.so*")})
    environment = {
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "FONTCONFIG_PATH": str(root / "etc" / "fonts"),
        # Where fontconfig looks for fonts besides the system's folders.
        "XDG_DATA_HOME": str(root / "usr" / "share"),
    }
    return Program(root / "usr" / "lib" / "chromium" / "chromium", environment)


def _unpack(folder: Path) -> None:
    try:
        packages = _missing_packages()
    except Exception:
        # A new machine has no lists of packages yet.
        run_tool(["apt-get", "update", "--quiet"], _WHAT, tries=3, timeout_s=300)
        packages = _missing_packages()
    run_tool(["apt-get", "download", "--quiet", *packages], _WHAT, cwd=folder, tries=3, timeout_s=600)
    for package in folder.glob("*.deb"):
        run_tool(["dpkg", "--extract", package, folder], _WHAT)
        package.unlink()


def _missing_packages() -> list[str]:
    """Return Chromium's package, and those that it needs and this machine does not have. Installs nothing."""
    plan = run_tool(
        ["apt-get", "install", "--simulate", "--no-install-recommends", "chromium", "fonts-liberation"], _WHAT, tries=1
    )
    return re.findall(r"^Inst (\S+)", plan, re.MULTILINE)


@contextmanager
def run_browser() -> Iterator[Browser]:
    """Have a browser without a window inside the block."""
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program.path,
            # Chromium's sandbox refuses to run as root, as tests do in containers.
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            env={**os.environ, **program.environment},
        )
        try:
            yield browser
        finally:
            browser.close()
