from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pipestream

API = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_the_public_names_are_these():
    assert pipestream.__all__ == [
        "Graph",
        "ModuleContext",
        "OrderedReader",
        "PipeDoc",
        "PipestreamError",
        "Settings",
        "SourceTopic",
        "TerminalError",
        "TransientError",
        "__version__",
        "apply_graph",
        "backfill_topic",
        "declare_module",
        "delete_graph",
        "drain_topic",
        "ingest_datasource",
        "load_graph",
        "load_settings",
        "open_ledger",
        "replay_dead_letters",
        "set_graph_mode",
        "set_topic_mode",
        "validate_graph",
    ]


@pytest.mark.parametrize("name", pipestream.__all__)
def test_a_public_name_is_there_and_in_an_example(name):
    found = getattr(pipestream, name)

    assert not isinstance(found, ModuleType), "a package of the same name hides it"
    assert name in dir(pipestream)
    assert re.search(rf"pipestream\.{name}\b|from pipestream import [\w, ]*\b{name}\b", API.read_text())


def test_public_names_stay_what_they_are_after_everything_is_imported():
    script = (
        "import importlib, pkgutil, types, pipestream\n"
        "for module in pkgutil.walk_packages(pipestream.__path__, 'pipestream.'):\n"
        "    importlib.import_module(module.name)\n"
        "print([n for n in pipestream.__all__ if isinstance(getattr(pipestream, n), types.ModuleType)])\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import pipestream", ["pydantic", "google.protobuf", "confluent_kafka", "psycopg", "pyarrow", "yaml"]),
        ("from pipestream import ModuleContext, PipeDoc", ["pydantic", "confluent_kafka", "psycopg", "pyarrow"]),
        ("from pipestream import TransientError", ["pydantic", "google.protobuf", "confluent_kafka"]),
        ("from pipestream import load_graph", ["confluent_kafka", "psycopg", "pyarrow"]),
    ],
)
def test_importing_a_name_imports_only_what_it_needs(code, unwanted):
    script = f"import sys\n{code}\nprint([name for name in {unwanted} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'drian'"):
        pipestream.drian  # noqa: B018
