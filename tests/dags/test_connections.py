"""Connections of Airflow that settings name: what a task and the processes that it starts take from them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped
from psycopg.conninfo import conninfo_to_dict

from pipestream.settings import load_settings
from pipestream_airflow.connections import run_settings
from pipestream_airflow.graph_dag import build_graph_dag
from pipestream_testing.settings_file import write_settings

SECRET = "s3cr3t %&'"


@pytest.fixture
def connect(monkeypatch):
    """Makes a connection, and names it in the settings: ``connect("kafka", extra={…})``."""

    def make(kind: str, conn_type: str = "", **fields: object) -> None:
        conn = {"conn_type": conn_type or kind, **fields}
        monkeypatch.setenv(f"AIRFLOW_CONN_{kind.upper()}_DEFAULT", json.dumps(conn))
        monkeypatch.setenv(f"PIPESTREAM_{kind.upper()}_CONN_ID", f"{kind}_default")

    return make


def test_brokers_and_login_are_taken_from_the_kafka_provider_s_connection(connect):
    options = {"bootstrap.servers": "b1:9093,b2:9093", "security.protocol": "SASL_SSL", "sasl.password": SECRET}
    connect("kafka", extra={**options, "group.id": "of others", "auto.offset.reset": "earliest"})

    settings, _ = run_settings()

    assert settings.kafka_bootstrap == "b1:9093,b2:9093"
    found = {name: value.get_secret_value() for name, value in settings.kafka_options.items()}
    assert found == {"security.protocol": "SASL_SSL", "sasl.password": SECRET}


def test_keys_region_and_endpoint_are_taken_from_an_aws_connection(connect):
    extra = {"region_name": "eu-north-1", "endpoint_url": "http://minio:9000"}
    connect("aws", login="key", password=SECRET, extra=extra)

    settings, _ = run_settings()

    assert (settings.s3_region, settings.s3_endpoint) == ("eu-north-1", "http://minio:9000")
    assert settings.s3_access_key.get_secret_value() == "key"
    assert settings.s3_secret_key.get_secret_value() == SECRET


def test_the_database_is_taken_from_a_postgres_connection(connect):
    fields = {"host": "db", "port": 5433, "login": "me", "password": SECRET, "schema": "documents"}
    connect("postgres", **fields, extra={"sslmode": "verify-full"})

    settings, _ = run_settings()

    assert conninfo_to_dict(settings.postgres_dsn.get_secret_value()) == {
        "host": "db",
        "port": "5433",
        "user": "me",
        "password": SECRET,
        "dbname": "documents",
        "sslmode": "verify-full",
    }


def test_a_process_that_a_task_starts_has_the_same_settings(connect, monkeypatch):
    connect("kafka", extra={"bootstrap.servers": "b1:9093", "sasl.password": SECRET})
    connect("aws", login="key", password=SECRET)
    connect("postgres", host="db", password=SECRET)

    settings, environment = run_settings()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert load_settings() == settings


def test_a_connection_without_secrets_takes_those_of_the_settings_back(connect, tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text(
        's3_access_key = "key"\ns3_secret_key = "s3cr3t"\ns3_endpoint = "http://minio:9000"\ns3_region = "eu-north-1"\n'
        'kafka_options = {"security.protocol" = "SASL_SSL", "sasl.password" = "s3cr3t"}\n'
    )
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(file))
    connect("kafka", extra={"bootstrap.servers": "b1:9093"})
    connect("aws")

    settings, environment = run_settings()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert (settings.s3_access_key, settings.s3_secret_key, settings.s3_endpoint) == (None, None, None)
    assert (settings.s3_region, settings.kafka_options) == ("eu-north-1", {})
    assert load_settings() == settings


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("kafka", {"extra": {"group.id": "g"}}, "kafka_default has no bootstrap.servers"),
        ("kafka", {"extra": {"bootstrap.servers": "b:1", "sasl.usernam": "me"}}, "did you mean sasl.username"),
        ("kafka", {"conn_type": "http"}, "kafka_default is of type 'http'; name one of type 'kafka'"),
        ("aws", {"extra": {"role_arn": "arn:aws:iam::1:role/x"}}, "role_arn in its extra, which would not be used"),
        ("aws", {"login": "key"}, "s3_access_key and s3_secret_key go together"),
        ("postgres", {"host": "db", "extra": {"cursor": "dict"}}, "does not know: cursor"),
    ],
)
def test_a_connection_that_would_not_be_obeyed_is_refused(connect, kind, fields, said):
    connect(kind, **{"password": SECRET, **fields} if kind == "postgres" else fields)

    with pytest.raises(AirflowFailException) as refused:
        run_settings()

    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.stack
def test_a_run_reaches_kafka_s3_and_postgresql_by_its_connections(pipeline, connect, config_file, monkeypatch):
    settings, nowhere = pipeline.settings, "127.0.0.1:1"
    database = conninfo_to_dict(settings.postgres_dsn.get_secret_value())
    extra = {"bootstrap.servers": settings.kafka_bootstrap, "group.id": "of others"}
    connect("kafka", extra=extra)
    connect(
        "aws",
        login=settings.s3_access_key.get_secret_value(),
        password=settings.s3_secret_key.get_secret_value(),
        extra={"region_name": settings.s3_region, "endpoint_url": settings.s3_endpoint},
    )
    connect(
        "postgres",
        host=database["host"],
        port=int(database.get("port") or 5432),
        login=database["user"],
        password=database.get("password"),
        schema=database["dbname"],
    )
    wrong = {"kafka_bootstrap": nowhere, "s3_endpoint": f"http://{nowhere}", "s3_secret_key": None}
    wrong |= {"s3_access_key": None, "postgres_dsn": f"postgresql://nobody@{nowhere}/nowhere"}
    write_settings(config_file, settings.model_copy(update=wrong))
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))
    dag = build_graph_dag(pipeline.graph, pipeline.graph_file, settings)
    pushed: dict[str, object] = {}
    context = {
        "params": dag.params.dump(),
        "dag": dag,
        "run_id": "manual__1",
        "dag_run": SimpleNamespace(run_type="manual", clear_number=0, run_after=datetime.now(UTC)),
        "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
    }

    with pytest.raises(DownstreamTasksSkipped):
        dag.task_dict["check"].execute(context)

    (found,) = pushed.values()
    assert set(found.values()) == {f"nothing to drain in {task.topic}" for task in dag.tasks if hasattr(task, "topic")}
