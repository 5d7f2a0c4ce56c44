from __future__ import annotations

from pathlib import Path

import pytest

from pipestream.project import dags_folder, graphs_folder, make_project, python_path

REPOSITORY = Path(__file__).resolve().parents[2]
TEMPLATE = REPOSITORY / "pipestream" / "samples" / "project"
FILES = sorted(file.relative_to(TEMPLATE) for file in TEMPLATE.rglob("*") if file.suffix in (".py", ".yaml", ".md"))


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_files_of_a_new_project_are_those_of_the_repository(file):
    assert (TEMPLATE / file).read_text() == (REPOSITORY / file).read_text(), f"copy {file} to {TEMPLATE / file}"


def test_a_new_project_has_every_dag_file_of_the_repository_and_the_sample_graph(tmp_path):
    assert make_project(tmp_path / "mine")

    made = {str(file.relative_to(tmp_path / "mine")) for file in (tmp_path / "mine").rglob("*") if file.is_file()}
    dag_files = {f"dags/{file.name}" for file in (REPOSITORY / "dags").glob("*.py")}
    assert made == {*dag_files, "dags/graphs/sample.yaml", "modules/README.md"}


def test_a_folder_that_has_dags_already_is_left_as_it_is(tmp_path):
    graphs_folder(tmp_path).mkdir(parents=True)

    assert not make_project(tmp_path)
    assert list(dags_folder(tmp_path).rglob("*.*")) == []


def test_the_modules_of_a_project_come_first_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"/somewhere:{tmp_path / 'modules'}")

    assert python_path(tmp_path) == f"{tmp_path / 'modules'}:/somewhere"
