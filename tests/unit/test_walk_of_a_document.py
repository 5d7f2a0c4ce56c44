"""Every file and function that ``docs/walk-of-a-document.md`` names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "walk-of-a-document.md"
NAMED = re.compile(r"`([\w/]+\.py)`((?:,?\s+`[\w.]+`)*)")


def steps():
    text = PAGE.read_text()
    return [(file, re.findall(r"`([\w.]+)`", functions)) for file, functions in NAMED.findall(text)]


def names_of(file):
    """Return the functions and classes of a file, methods with the class's name in front."""
    found = set()

    def collect(body, prefix):
        for part in body:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(prefix + part.name)
                if isinstance(part, ast.ClassDef):
                    collect(part.body, f"{prefix}{part.name}.")

    collect(ast.parse(file.read_text()).body, "")
    return found


@pytest.mark.parametrize(("file", "functions"), steps(), ids=[file for file, _ in steps()])
def test_the_file_and_its_functions_exist(file, functions):
    path = REPOSITORY / file

    assert path.is_file()
    assert set(functions) <= names_of(path)


def test_the_page_names_files_in_every_step():
    assert len(steps()) > 20
    assert all(functions for _, functions in steps())
