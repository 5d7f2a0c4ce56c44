from __future__ import annotations

from pipestream.settings import CONFIG_VARIABLE
from pipestream_spark.environment import connect_environment, executor_environment


def test_executors_get_the_settings_file_by_name_and_no_setting(monkeypatch, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('s3_access_key = "key"\ns3_secret_key = "s3cr3t"\n')
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("PIPESTREAM_POSTGRES_DSN", "postgresql://user:s3cr3t@127.0.0.1/none")

    assert executor_environment() == {CONFIG_VARIABLE: str(file)}


def test_executors_get_the_name_of_the_file_that_up_wrote(monkeypatch, tmp_path):
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".pipestream" / "stack.toml"
    file.parent.mkdir()
    file.touch()

    assert executor_environment() == {CONFIG_VARIABLE: str(file)}


def test_executors_of_a_machine_without_a_file_get_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)

    assert executor_environment() == {}


def test_workers_of_a_connect_server_also_get_the_variables_that_are_not_secret(monkeypatch, tmp_path):
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "CHUNK_RECORDS": "7",
        "POSTGRES_DSN": "postgresql://user:s3cr3t@127.0.0.1/none",
        "KAFKA_OPTIONS": '{"sasl.password": "s3cr3t"}',
        "SPARK_CONNECT_TOKEN": "s3cr3t",
        "METRICS_PUSH_URL": "http://user:s3cr3t@127.0.0.1:9091",
        "STACK_FOLDER": "elsewhere",
    }.items():
        monkeypatch.setenv(f"PIPESTREAM_{name}", value)

    assert connect_environment() == {"PIPESTREAM_CHUNK_RECORDS": "7"}
    of_connections = {"PIPESTREAM_KAFKA_BOOTSTRAP": "b1:9093", "PIPESTREAM_S3_SECRET_KEY": "s3cr3t"}
    taken_back = {"PIPESTREAM_KAFKA_OPTIONS": "{}", "PIPESTREAM_S3_ACCESS_KEY": ""}
    assert connect_environment(taken_back) == {"PIPESTREAM_CHUNK_RECORDS": "7", **taken_back}
    assert connect_environment({**of_connections, "PIPESTREAM_CHUNK_RECORDS": "8"}) == {
        "PIPESTREAM_CHUNK_RECORDS": "8",
        "PIPESTREAM_KAFKA_BOOTSTRAP": "b1:9093",
    }
