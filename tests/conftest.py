"""Fixtures for tests that need servers: one full stack per run, and fresh names and places per test."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from pipestream.local import Stack, load_spec
from pipestream.testing.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _only_our_settings() -> None:
    """A developer's own PIPESTREAM_ variables must not decide what the tests see."""
    for name in [name for name in os.environ if name.startswith("PIPESTREAM_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def stack(_only_our_settings: None) -> Iterator[Stack]:
    """The full stack: Kafka, PostgreSQL, Consul, S3, Spark; on free ports, in a folder of its own.

    Two test runs of one checkout share it, so a test that breaks servers starts them again.
    """
    spec = load_spec(profile="full", folder=REPOSITORY / ".pipestream" / "test", free_ports=True, durable=False)
    with Stack(spec).shared(print) as running:
        yield running


@pytest.fixture(scope="session")
def airflow_env(stack: Stack) -> dict[str, str]:
    """The environment for ``airflow`` commands: home and database are ready, no daemon runs."""
    return stack.prepare_airflow()


@pytest.fixture
def unique() -> str:
    """A short id for topics, datasources and clusters of one test."""
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def settings(stack: Stack, unique: str, tmp_path: Path) -> Iterator[Settings]:
    """Settings for the stack with a database, a store prefix and a ledger of this test's own."""
    main = stack.settings().postgres_dsn.get_secret_value()
    dsn = re.sub(r"/pipestream$", f"/{unique}", main)
    with psycopg.connect(main, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(unique)))
        try:
            yield stack.settings(
                store_uri=f"s3://pipestream/{unique}",
                ledger_uri=(tmp_path / "ledger").as_uri(),
                postgres_dsn=dsn,
                leases="sql",
            )
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(unique)))


@pytest.fixture
def config_file(settings: Settings, tmp_path: Path) -> Path:
    """``settings`` as a TOML file, for child processes: name it in PIPESTREAM_CONFIG."""
    from pipestream.local.state import write_settings

    file = tmp_path / "settings.toml"
    write_settings(file, settings)
    return file


@pytest.fixture
def pipeline(settings: Settings, unique: str, tmp_path: Path) -> Pipeline:
    """A small graph with every kind of way out, its topics made: ``tests/data/exactly_once.yaml``."""
    file = tmp_path / f"{unique}.yaml"
    file.write_text((REPOSITORY / "tests" / "data" / "exactly_once.yaml").read_text().replace("UNIQUE", unique))
    made = Pipeline(settings, file)
    made.create_topics()
    return made
