from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipestream.local.server import Site
from pipestream.local.spark_connect import TOKEN_VARIABLE, SparkConnect
from pipestream.local.spec import load_spec
from pipestream.local.state import NO_SECRETS, load_secrets

TOKEN = "s3cr3t-t0ken"


def launch(profile, folder):
    spec = load_spec(profile=profile, folder=folder, environment={})
    return SparkConnect(Site(spec, spec.ports, replace(NO_SECRETS, spark_connect_token=TOKEN))).launch()


@pytest.mark.parametrize("profile", ["embedded", "full"])
def test_the_token_is_in_the_environment_of_the_server_and_not_in_its_command_line(profile, tmp_path):
    made = launch(profile, tmp_path)

    assert made.environment[TOKEN_VARIABLE] == TOKEN
    assert TOKEN not in " ".join(made.argv)


def test_it_listens_on_this_machine_alone_and_keeps_its_session(tmp_path):
    argv = launch("embedded", tmp_path).argv

    assert "spark.connect.grpc.binding.address=127.0.0.1" in argv
    assert "spark.connect.session.manager.defaultSessionTimeout=-1" in argv
    assert "spark.ui.enabled=false" in argv


def test_in_the_full_profile_it_is_on_the_cluster_and_leaves_cores_for_others(tmp_path):
    argv = launch("full", tmp_path).argv

    assert argv[argv.index("--master") + 1] == "spark://127.0.0.1:17077"
    assert "spark.cores.max=4" in argv


def test_a_stack_of_before_gets_the_secrets_that_it_lacks_and_keeps_the_others(tmp_path):
    file = tmp_path / "secrets.json"
    first = load_secrets(file)
    kept = {name: value for name, value in json.loads(file.read_text()).items() if name != "spark_connect_token"}
    file.write_text(json.dumps(kept))

    second = load_secrets(file)

    assert second.postgres_password == first.postgres_password
    assert second.spark_connect_token
    assert load_secrets(file) == second
