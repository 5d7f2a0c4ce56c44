"""A small package of somebody else's, built and installed, that adds plugins: ``tests/data/acme-plugins``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "data" / "acme-plugins"


def install_acme(folder: Path) -> Path:
    """Build the package's wheel, install it into a folder, and return what to put on Python's path."""
    source, installed = folder / "acme-source", folder / "acme-installed"
    shutil.copytree(SOURCE, source)
    python = Path(sys.executable)
    command = [str(python.with_name("uv")), "pip", "install", "--quiet", "--offline", "--no-deps"]
    command += ["--no-build-isolation", "--python", str(python), "--target", str(installed), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return installed
