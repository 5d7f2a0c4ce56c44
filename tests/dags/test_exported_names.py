from __future__ import annotations

import subprocess
import sys

import pytest

import pipestream_airflow


@pytest.mark.parametrize("name", pipestream_airflow.__all__)
def test_every_exported_name_is_there(name):
    assert getattr(pipestream_airflow, name).__name__ == name


def test_a_name_that_is_not_exported_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = pipestream_airflow.nothing


def test_importing_the_package_imports_neither_airflow_nor_kafka():
    script = "import sys, pipestream_airflow, pipestream_airflow.provider\n"
    script += "print([name for name in ('airflow', 'confluent_kafka', 'deltalake') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
