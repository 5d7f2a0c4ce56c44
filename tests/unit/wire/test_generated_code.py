from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_code_is_what_the_proto_files_generate():
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_protos.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr
