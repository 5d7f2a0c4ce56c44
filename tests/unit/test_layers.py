from __future__ import annotations

import subprocess
import sys


def test_importing_the_product_brings_in_neither_airflow_nor_spark():
    script = (
        "import importlib, pkgutil, sys, pipestream\n"
        "for module in pkgutil.walk_packages(pipestream.__path__, 'pipestream.'):\n"
        "    importlib.import_module(module.name)\n"
        "print([name for name in ('airflow', 'pyspark', 'delta') if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stderr
