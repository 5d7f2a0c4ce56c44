"""The wheel as a user has it: built, and installed where the checkout is not in sight."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with the libraries of the tests' environment but its editable install."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(_ask(python, "import sysconfig; print(sysconfig.get_paths()['purelib'])"))
    libraries = folder / "libraries"
    libraries.mkdir()
    # Links rather than the folder itself, whose .pth file leads to the checkout and whose metadata names its plugin.
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith(("pipestream", "_pipestream")):
            (libraries / entry.name).symlink_to(entry)
    (site / "libraries.pth").write_text(f"{libraries}\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, timeout=300)
    airflow = folder / "bin" / "airflow"
    airflow.write_text(f"#!{python}\nfrom airflow.__main__ import main\n\nmain()\n")
    airflow.chmod(0o755)
    return folder


@dataclass(frozen=True)
class Shell:
    """An empty folder in which the programs of an environment are run."""

    folder: Path
    programs: Path
    variables: Mapping[str, str]
    more: dict[str, str] = field(default_factory=dict)

    def __call__(self, program: str, *arguments: str, code: int = 0, timeout_s: float = 300) -> CompletedProcess[str]:
        """Run a program and expect it to end with a code."""
        command = [str(self.programs / program), *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.variables, **self.more},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Shell:
    return _open_shell(environment, tmp_path)


@pytest.fixture
def run_fresh(wheel: Path, tmp_path: Path) -> Shell:
    """The same in an environment that shares nothing with the tests': every library is installed, from the index."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    install = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--python", str(folder)]
    requirements = str(REPOSITORY / "requirements.txt")
    subprocess.run([*install, "--require-hashes", "--requirement", requirements], check=True, timeout=600)
    subprocess.run([*install, "--no-deps", str(wheel)], check=True, timeout=300)
    return _open_shell(folder, tmp_path)


def _open_shell(environment: Path, folder: Path) -> Shell:
    (folder / "empty").mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PIPESTREAM", "PY"))}
    variables = {
        **clean,
        "PATH": os.pathsep.join([str(environment / "bin"), os.environ["PATH"]]),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "empty" / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    return Shell(folder / "empty", environment / "bin", variables)


def _ask(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
