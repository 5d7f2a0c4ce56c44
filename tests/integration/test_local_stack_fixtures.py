"""The stack that all integration tests share is what they think it is."""

from __future__ import annotations

import os
import subprocess
import sys

import boto3
import psycopg
import pytest

from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack


def test_every_server_of_the_full_stack_answers(stack, consul, spark_cluster):
    servers = ["kafka", "postgres", "consul", "s3", "spark-master", "spark-worker-1", "spark-worker-2"]

    def all_answer():
        states = {server.name: server.state for server in stack.status()}
        # One that has much to do for other tests does not answer within the moment that it is given.
        assert set(states.values()) <= {"running", "unresponsive"}, states
        # Tests that ran before may have added more, such as spark-connect.
        return {states.get(name) for name in servers} == {"running"}

    wait_until(all_answer, "not every server has answered")


def test_each_test_has_an_empty_database_of_its_own(settings, unique):
    with psycopg.connect(settings.postgres_dsn.get_secret_value()) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()[0]

    assert (name, tables) == (unique, 0)


def test_the_settings_reach_the_s3_server(settings, unique):
    client = boto3.client(
        "s3",
        endpoint_url=settings.s3_endpoint,
        region_name=settings.s3_region,
        aws_access_key_id=settings.s3_access_key.get_secret_value(),
        aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
    )
    client.put_object(Bucket="pipestream", Key=f"{unique}/a", Body=b"hello")

    listed = client.list_objects_v2(Bucket="pipestream", Prefix=f"{unique}/")

    assert [entry["Key"] for entry in listed["Contents"]] == [f"{unique}/a"]
    client.close()


def test_a_child_process_reads_the_settings_from_the_config_file(config_file, settings):
    program = (
        "from pipestream.settings import load_settings; s = load_settings();"
        "print(s.kafka_bootstrap, s.ledger_uri, s.s3_secret_key.get_secret_value())"
    )
    environment = {**os.environ, "PIPESTREAM_CONFIG": str(config_file)}

    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()

    assert printed == [
        settings.kafka_bootstrap,
        settings.ledger_uri,
        settings.s3_secret_key.get_secret_value(),
    ]
    assert config_file.stat().st_mode & 0o077 == 0
