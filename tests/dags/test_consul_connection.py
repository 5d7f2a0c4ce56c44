"""The connection type consul: what an operator and its job take from it, and the button that tests it."""

from __future__ import annotations

import json
import logging
import socket
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from pipestream.settings import load_settings
from pipestream_airflow import drain_operator
from pipestream_airflow.connections import run_settings
from pipestream_airflow.consul_hook import ConsulHook
from pipestream_testing.spark_submit import DRAINED

TOKEN = "0f5b6f2e-token"


@pytest.fixture
def connect(monkeypatch):
    """Makes the connection leases_at, as a variable of Airflow."""

    def make(**fields: object) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_LEASES_AT", json.dumps({"conn_type": "consul", **fields}))
        monkeypatch.setenv("PIPESTREAM_LEASES", "consul")

    return make


def test_a_connection_takes_the_place_of_the_settings(connect, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_CONSUL_ADDRESS", "elsewhere:1")
    connect(host="consul.example", port=8501, password=TOKEN, extra={"scheme": "https", "ca_file": "/etc/ca.pem"})

    settings, environment = run_settings("leases_at")

    assert (settings.consul_address, settings.consul_scheme) == ("consul.example:8501", "https")
    assert settings.consul_token.get_secret_value() == TOKEN
    assert str(settings.consul_ca_file) == "/etc/ca.pem"
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        assert load_settings() == settings


def test_a_connection_without_a_token_takes_that_of_the_settings_back(connect, tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text(f'consul_scheme = "https"\nconsul_token = "{TOKEN}"\nconsul_ca_file = "/etc/ca.pem"\n')
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(file))
    connect(host="consul.example")

    settings, environment = run_settings("leases_at")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert (settings.consul_scheme, settings.consul_token, settings.consul_ca_file) == ("http", None, None)
    assert load_settings() == settings


def test_without_a_connection_the_settings_count(monkeypatch):
    monkeypatch.setenv("PIPESTREAM_CONSUL_ADDRESS", "consul.example:1")

    assert run_settings() == (load_settings(), {})


def test_a_connection_that_would_not_be_used_is_refused(connect, monkeypatch):
    connect(host="consul.example")
    monkeypatch.setenv("PIPESTREAM_LEASES", "sql")

    with pytest.raises(AirflowFailException, match="leases_at would not be used: the setting leases is 'sql'"):
        run_settings("leases_at")


def test_a_scheme_that_is_none_is_refused(connect):
    connect(host="consul.example", extra={"scheme": "ftp"})

    with pytest.raises(AirflowFailException, match="PIPESTREAM_CONSUL_SCHEME"):
        run_settings("leases_at")


@pytest.fixture
def checked_with(monkeypatch) -> list:
    """The settings with which the check before Spark was made."""
    found = []

    def check(settings, _request):
        found.append(settings)
        return ""

    monkeypatch.setattr(drain_operator, "find_reason_to_skip", check)
    return found


def test_check_and_job_of_a_drain_use_the_connection_and_its_token_is_in_no_log_and_no_report(
    task, spark, connect, checked_with, caplog, context
):
    caplog.set_level(logging.DEBUG)
    connect(host="consul.example", password=TOKEN)
    task.consul_conn_id = "leases_at"

    returned = task.execute(context())

    assert [settings.consul_address for settings in checked_with] == ["consul.example:8500"]
    assert spark.environment["PIPESTREAM_CONSUL_ADDRESS"] == "consul.example:8500"
    assert spark.environment["PIPESTREAM_CONSUL_TOKEN"] == TOKEN
    assert TOKEN not in " ".join(spark.arguments) + json.dumps(returned) + caplog.text


@pytest.mark.usefixtures("checked_with")
def test_the_token_is_not_on_the_command_line_for_yarn_to_which_airflow_passes_variables_there(
    task, spark, connect, monkeypatch, context
):
    connect(host="consul.example", password=TOKEN)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
    task.consul_conn_id = "leases_at"

    task.execute(context())

    assert TOKEN not in " ".join(spark.arguments)
    assert spark.environment["PIPESTREAM_CONSUL_TOKEN"] == TOKEN


@pytest.mark.stack
def test_the_button_finds_the_leader_of_a_real_consul(connect, stack, consul):
    host, _, port = stack.settings().consul_address.rpartition(":")
    connect(host=host, port=int(port))

    is_good, said = ConsulHook("leases_at").test_connection()

    assert is_good
    assert said.startswith("the leader is 127.0.0.1:")


def test_the_button_says_when_nobody_answers(connect):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and nobody listens
        port = silent.getsockname()[1]
        connect(host="127.0.0.1", port=port)

        is_good, said = ConsulHook("leases_at").test_connection()

    assert not is_good
    assert f"Consul at 127.0.0.1:{port} does not answer" in said


@pytest.mark.usefixtures("nothing_against_it")
def test_the_pages_of_spark_are_linked_while_the_job_runs(task, spark, context):
    pushed = []
    spark.tell(DRAINED, says="INFO pipestream_spark.runner: Spark UI at http://driver:4040")
    told = {**context(), "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.append((key, value)))}

    task.execute(told)

    link, *_ = task.operator_extra_links
    assert pushed == [(link.xcom_key, "http://driver:4040")]
    assert link.get_link(task, ti_key=None) == "http://driver:4040"
