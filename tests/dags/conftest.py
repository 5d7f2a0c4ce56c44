"""Airflow for tests that parse DAGs or run an operator: the repository's plugins, a home of its own, no database."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# Airflow reads its settings when it is first imported, which is while the test modules here are collected.
HOME = tempfile.mkdtemp(prefix="pipestream-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = HOME
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(REPOSITORY / "dags")
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(REPOSITORY / "plugins")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# A machine with much else to do may take longer over an import than Airflow allows for.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "400"
if str(REPOSITORY / "plugins") not in sys.path:
    sys.path.append(str(REPOSITORY / "plugins"))

WriteGraph = Callable[[str, str], Path]


@pytest.fixture
def dags_folder(tmp_path: Path) -> Path:
    """A copy of the DAG files that read graphs, without graphs."""
    folder = tmp_path / "dags"
    (folder / "graphs").mkdir(parents=True)
    for file in (REPOSITORY / "dags").glob("pipestream_graph*.py"):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def write_graph(dags_folder: Path) -> WriteGraph:
    """Writes a graph file beside the DAG files."""

    def write(name: str, text: str) -> Path:
        file = dags_folder / "graphs" / name
        file.write_text(dedent(text))
        return file

    return write
