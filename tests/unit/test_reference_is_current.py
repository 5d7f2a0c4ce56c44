from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_reference_says_what_the_code_says():
    command = [sys.executable, str(REPOSITORY / "scripts" / "generate_reference.py"), "--check"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)

    assert done.returncode == 0, done.stderr
