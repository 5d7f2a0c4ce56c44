"""A project folder: the DAG files, graphs and modules of a user, which the command line, Airflow and Spark work on.

The files of a new one are data of this package, in ``samples/project/``. The repository's own ``dags/`` has the same
files, and a test compares them.
"""

from __future__ import annotations

import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path

_TEMPLATE = files("pipestream.samples") / "project"


def dags_folder(project: Path) -> Path:
    return project / "dags"


def graphs_folder(project: Path) -> Path:
    return dags_folder(project) / "graphs"


def make_project(project: Path) -> bool:
    """Write DAG files and the sample graph into a folder that has no ``dags/`` yet, and say whether it did.

    A folder with ``dags/`` is already a project: nothing in it is added or changed.
    """
    if dags_folder(project).exists():
        return False
    with as_file(_TEMPLATE) as template:
        # An editable install has caches there.
        shutil.copytree(template, project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return True


def python_path(project: Path) -> str:
    """Return the ``PYTHONPATH`` with which Airflow and Spark find the project's own modules."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(dict.fromkeys([str(modules_folder(project)), *given]))


def modules_folder(project: Path) -> Path:
    return project.absolute() / "modules"
