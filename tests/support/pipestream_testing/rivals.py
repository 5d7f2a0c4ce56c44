"""The environment of the benchmarks' rivals: made once, from the requirements beside them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

_BENCH = Path(__file__).resolve().parents[2] / "bench"
_FOLDER = Path(__file__).resolve().parents[3] / ".pipestream" / "rivals"


def python_of_rivals() -> str:
    """Return the interpreter of the rivals' environment."""
    python, ready = _FOLDER / "bin" / "python", _FOLDER / ".ready"
    requirements = _BENCH / "rivals" / "requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not ready.exists() or ready.read_text() != wanted:
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, _FOLDER], check=True)
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "--requirement", requirements],
            check=True,
        )
        ready.write_text(wanted)
    return str(python)


def rival_script(name: str) -> Path:
    return _BENCH / "rivals" / name


def run_rival(script: str, *arguments: object) -> list[float]:
    """Run a rival's script, and return the figures that it prints."""
    command = [python_of_rivals(), str(rival_script(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    return [float(each) for each in done.stdout.split()]
