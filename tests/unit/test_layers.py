from __future__ import annotations

import subprocess
import sys

import pytest

from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import to_binary

GRAPH = check_graph_text(
    b"graph: g\ncluster: main\nnodes: [{id: a, type: connector}, {id: b, type: connector}]\n"
    b"edges: [{from: a, to: b, when: 'has(doc.search_metadata.title)'}]\n",
    "g.yaml",
).require()
ENGINES = {"cel-expr": "cel_expr_python", "celpy": "pipestream.routing.cel_py"}


def test_importing_the_product_brings_in_neither_airflow_nor_spark():
    script = (
        "import importlib, pkgutil, sys, pipestream\n"
        "for module in pkgutil.walk_packages(pipestream.__path__, 'pipestream.'):\n"
        "    importlib.import_module(module.name)\n"
        "print([name for name in ('airflow', 'pyspark', 'delta') if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stderr


def modules_after(script):
    """Return the modules that a fresh interpreter has loaded after a script."""
    lines = f"import sys\n{script}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


RESTORE = f"from pipestream.graph.proto import from_kept\ngraph = from_kept({to_binary(GRAPH)!r}, source='kept')"


def test_restoring_a_checked_graph_loads_neither_rules_nor_connectors_nor_a_cel_engine():
    loaded = modules_after(RESTORE)

    unwanted = ("pipestream.graph.load", "pipestream.graph.rules", "pipestream.connectors", "pipestream.modules")
    unwanted += ("pipestream.routing.conditions", "pipestream.routing.engine", "celpy", "cel_expr_python", "grpc")
    assert "pipestream.graph.proto" in loaded
    assert not {name for name in loaded if name.startswith(unwanted)}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_loads_only_the_cel_engine_that_it_runs(engine):
    compile_graph = "from pipestream.engine.graph_conditions import compile_conditions"
    loaded = modules_after(f"{RESTORE}\n{compile_graph}\ncompile_conditions(graph, {engine!r})")

    assert {name for name, module in ENGINES.items() if module in loaded} == {engine}


def test_a_graph_is_made_once_in_a_process():
    text = b"graph: once\ncluster: main\nnodes: [{id: a, type: connector}]\n"
    first = check_graph_text(text, "once.yaml").require()

    assert check_graph_text(text, "once.yaml").require() is first
    assert check_graph_text(text + b"name: changed\n", "once.yaml").require() is not first
