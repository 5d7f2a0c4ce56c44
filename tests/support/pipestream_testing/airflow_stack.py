"""A local stack with a whole Airflow, whose DAGs are made from graphs of a test's own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipestream.local import Stack, load_spec
from pipestream.local.spec import Profile

REPOSITORY = Path(__file__).resolve().parents[3]


@contextmanager
def airflow_stack(
    folder: Path,
    profile: Profile,
    graphs: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    dag_files: Mapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Have a stack with Airflow up inside the block; its state is in ``folder/stack``, its DAGs in ``folder/dags``.

    :param graphs: the texts of the graph files, by name.
    :param environment: further variables for Airflow and what it starts.
    :param dag_files: the texts of further DAG files, by name.
    """
    _open_to_others(folder)
    dags = folder / "dags"
    shutil.copytree(REPOSITORY / "dags", dags, ignore=shutil.ignore_patterns("graphs", "__pycache__"))
    (dags / "graphs").mkdir()
    for name, text in graphs.items():
        graph_file(folder, name).write_text(text)
    for name, text in (dag_files or {}).items():
        (dags / f"{name}.py").write_text(text)
    bundle = {
        "name": "tests",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(dags)},
    }
    spec = load_spec(profile=profile, folder=folder / "stack", airflow=True, free_ports=True, durable=False)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        patch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
        # The files do not change, and reading them again takes a tenth of a small machine.
        patch.setenv("AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL", "3600")
        with Stack(spec).running(print) as running:
            yield running


def graph_file(folder: Path, name: str) -> Path:
    """Return the file of a graph of the stack in ``folder``."""
    return folder / "dags" / "graphs" / f"{name}.yaml"


def _open_to_others(folder: Path) -> None:
    # PostgreSQL runs as another user, who must get there; pytest's folders are for the owner only.
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == folder.stat().st_uid and "pytest" in parent.name:
            parent.chmod(0o755)
