"""Fixtures for tests that need servers: one full stack per run, and fresh names and places per test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
from psycopg import sql

from pipestream.local import ServerHandle, Stack, load_spec
from pipestream_testing.length import LONG
from pipestream_testing.oracle import Rounds
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.scheduling import make_scheduler, turn_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[1]
STACK_FOLDER = REPOSITORY / ".pipestream" / "test"
SERVERS = ("kafka", "postgres", "s3")
FETCHING = pytest.StashKey[subprocess.Popen[bytes]]()
ROUNDS = pytest.StashKey[Rounds]()

# The same examples in every run, so that a run fails for what was changed; `make faults` tries new ones. No time
# limits: tests also run on busy machines.
hypothesis.settings.register_profile(
    "pipestream",
    deadline=None,
    derandomize=not LONG,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("pipestream")


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Run files in the order that makes a whole run short."""
    needs: dict[Path, set[str]] = {}
    for item in items:
        needs.setdefault(item.path, set()).update(item.fixturenames, (mark.name for mark in item.iter_markers()))
    items.sort(key=lambda item: turn_of(item.nodeid, needs[item.path]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return make_scheduler(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to fetch the servers. Quick where they are cached; where they are not, minutes of compiling."""
    needed = any("stack" in item.fixturenames for item in session.items if isinstance(item, pytest.Function))
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if needed and is_first and not session.config.option.collectonly:
        STACK_FOLDER.mkdir(parents=True, exist_ok=True)
        fetch = [sys.executable, "-m", "pipestream.cli.main", "fetch", "--profile", "full"]
        with (STACK_FOLDER / "fetch.log").open("wb") as log:
            # The tests come first. If it fails, the fixture that needs the server tries again, and says why.
            session.config.stash[FETCHING] = subprocess.Popen(
                ["nice", *fetch], stdout=log, stderr=log, start_new_session=True
            )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker: hand the verdicts on faults to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    rounds = session.config.stash.get(ROUNDS, None)
    if output is not None and rounds is not None:
        output["rounds"] = rounds.dump()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the process that reports: take over what a worker found."""
    found = getattr(node, "workeroutput", {}).get("rounds")
    if found is not None:
        node.config.stash.setdefault(ROUNDS, Rounds()).load(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(ROUNDS, Rounds()).summary():
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    fetching = config.stash.get(FETCHING, None)
    if fetching is not None:
        with suppress(ProcessLookupError):
            os.killpg(fetching.pid, signal.SIGTERM)
        fetching.wait()
    _tell_the_sum_of_faults(config)


def _tell_the_sum_of_faults(config: pytest.Config) -> None:
    """Say it last, below pytest's own last line."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    failed = sum(len(reporter.stats.get(kind, ())) for kind in ("failed", "error"))
    if line := config.stash.get(ROUNDS, Rounds()).line(failed):
        config.get_terminal_writer().line(line)


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> Rounds:
    """Where every fault test's verdict goes."""
    return request.config.stash.setdefault(ROUNDS, Rounds())


@pytest.fixture(scope="session", autouse=True)
def _only_our_settings() -> None:
    """A developer's own PIPESTREAM_ variables must not decide what the tests see."""
    for name in [name for name in os.environ if name.startswith("PIPESTREAM_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def stack(_only_our_settings: None) -> Iterator[Stack]:
    """Kafka, PostgreSQL and S3, to which ``consul`` and ``spark_cluster`` add; on free ports, in a folder of its own.

    All processes of a test run share it, and other runs of the checkout too: a test breaks only servers of its own.
    """
    spec = load_spec(profile="full", folder=STACK_FOLDER, free_ports=True, durable=False)
    with Stack(spec).shared(print, names=SERVERS) as running:
        yield running


@pytest.fixture(scope="session")
def consul(stack: Stack) -> ServerHandle:
    """The stack's Consul. Apart from the others, because it takes longest to build where there is none."""
    stack.up(print, names=["consul"])
    return stack.server("consul")


@pytest.fixture(scope="session")
def spark_cluster(stack: Stack) -> str:
    """The address of the stack's Spark cluster: a master and two workers, which few tests need."""
    stack.up(print, names=["spark-master", "spark-worker-1", "spark-worker-2"])
    return stack.settings().spark_master


@pytest.fixture(scope="session")
def spark_connect(stack: Stack, spark_cluster: str) -> ServerHandle:
    """The stack's Spark Connect server, on its cluster. A test that breaks a server has one of its own."""
    assert spark_cluster
    stack.up(print, names=["spark-connect"])
    return stack.server("spark-connect")


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
    with _own_places(stack, unique, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def module_settings(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The same for all tests of a file that share a server, whose names and graphs are then their own."""
    with _own_places(stack, f"t{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("module")) as made:
        yield made


@pytest.fixture(scope="session")
def session_settings(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The same for all tests of a folder that share a server which is slow to start."""
    with _own_places(stack, f"t{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("session")) as made:
        yield made


@contextmanager
def _own_places(stack: Stack, unique: str, folder: Path) -> Iterator[Settings]:
    main = stack.settings().postgres_dsn.get_secret_value()
    dsn = re.sub(r"/pipestream$", f"/{unique}", main)
    with psycopg.connect(main, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(unique)))
        try:
            yield stack.settings(
                # Longer than the defaults: other tests keep the servers busy, with thousands of topics or 80 MB.
                kafka_timeout_s=120,
                s3_timeout_s=120,
                store_uri=f"s3://pipestream/{unique}",
                ledger_uri=(folder / "ledger").as_uri(),
                postgres_dsn=dsn,
                leases="sql",
                lease_folder=folder / "leases",
            )
        finally:
            _drop_database(connection, unique)


@pytest.fixture(scope="module")
def shared_pipeline(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline as ``pipeline``, for all tests of a file that share a server."""
    unique = f"t{uuid.uuid4().hex[:8]}"
    file = tmp_path_factory.mktemp("shared") / f"{unique}.yaml"
    file.write_text((REPOSITORY / "tests" / "data" / "exactly_once.yaml").read_text().replace("UNIQUE", unique))
    made = Pipeline(module_settings, file)
    made.create_topics()
    return made


def _drop_database(connection: psycopg.Connection, name: str) -> None:
    """Drop a database. PostgreSQL ends the sessions of processes that were killed, but waits for it only 5 s."""
    deadline = time.monotonic() + 120
    while True:
        try:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
        else:
            return


@pytest.fixture
def config_file(settings: Settings, tmp_path: Path) -> Path:
    """``settings`` as a TOML file, for child processes: name it in PIPESTREAM_CONFIG."""
    from pipestream_testing.settings_file import write_settings

    file = tmp_path / "settings.toml"
    write_settings(file, settings)
    return file


@pytest.fixture
def graph_text(unique: str) -> str:
    """A small graph with every kind of way out, its names of this test's own: ``tests/data/exactly_once.yaml``."""
    return (REPOSITORY / "tests" / "data" / "exactly_once.yaml").read_text().replace("UNIQUE", unique)


@pytest.fixture
def pipeline(settings: Settings, unique: str, tmp_path: Path, graph_text: str) -> Pipeline:
    """The graph of ``graph_text``, its topics made."""
    file = tmp_path / f"{unique}.yaml"
    file.write_text(graph_text)
    made = Pipeline(settings, file)
    made.create_topics()
    return made
