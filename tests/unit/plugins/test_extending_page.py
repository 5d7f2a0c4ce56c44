from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipestream.plugins import PluginGroup
from pipestream_testing.acme import SOURCE

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "extending.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_the_code_on_the_page_is_the_code_that_the_tests_install(block):
    assert block in (SOURCE / "acme_plugins.py").read_text()


@pytest.mark.parametrize("line", re.findall(r'^\S+ = "acme_plugins:\S+"$', PAGE, re.MULTILINE))
def test_the_entry_points_on_the_page_are_those_that_the_tests_install(line):
    assert line in (SOURCE / "pyproject.toml").read_text().splitlines()


@pytest.mark.parametrize("group", PluginGroup)
def test_the_page_names_every_group(group):
    assert f"`{group.value}`" in PAGE
