from __future__ import annotations

import json

import pytest

from pipestream.local.spec import PORT_NAMES, port_variable


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_demo_and_stack_work_from_the_wheel_in_an_empty_folder(run_fresh):
    demo = json.loads(run_fresh("pipestream", "demo", "--json", timeout_s=900).stdout)

    assert demo["ok"], demo["problems"]
    assert [file.name for file in run_fresh.folder.iterdir()] == [".pipestream"], "the demo keeps to its own folder"

    run_fresh.more.update({port_variable(name): "0" for name in PORT_NAMES})
    run_fresh("pipestream", "up", timeout_s=600)
    try:
        run_fresh("pipestream", "status")
        listed = run_fresh("pipestream", "airflow", "dags", "list", "--local", "--output", "json").stdout
    finally:
        run_fresh("pipestream", "down")
    dags = {dag["dag_id"] for dag in json.loads(listed[listed.index("[{") :])}
    assert dags == {
        "pipestream_sample",
        "pipestream_sample.approve",
        "pipestream_ingest_sample-files",
        "pipestream_upkeep",
    }
