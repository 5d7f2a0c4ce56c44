"""What benchmarks share, and how they are reported: one table at the end, and ``bench/results.json``.

A benchmark that fails is a row of the table, and ends no other. Each has a budget of seconds, so that a whole run stays
short; one that takes several times its budget is ended and has failed.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipestream.local.jars import delta_jars
from pipestream.settings import CONFIG_VARIABLE, Settings
from pipestream_testing.bench import IS_QUICK, Results, Scenario, sized
from pipestream_testing.bench_table import lines
from pipestream_testing.contenders import Contenders
from pipestream_testing.settings_file import write_settings

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results.json"
THIS_RUN = pytest.StashKey[Results]()
OF_THIS_TEST = pytest.StashKey[list[Scenario]]()
SECONDS = pytest.StashKey[dict[str, float]]()
LEFT_OUT = pytest.StashKey[list[str]]()

# Seconds that the benchmarks of a file may take on two cores alone, full and quick. They add up to 20 and 4 minutes.
BUDGETS = {
    "bench_conditions": (10, 2),
    "bench_dag_parsing": (12, 5),
    "bench_drain": (150, 32),
    "bench_engine": (130, 22),
    "bench_engine_stages": (6, 2),
    "bench_http_api": (50, 1),
    "bench_idle_runs": (90, 6),
    "bench_ingest": (25, 7),
    "bench_ledger_heads": (80, 15),
    "bench_memory": (160, 12),
    "bench_module_concurrency": (50, 11),
    "bench_ordered_read": (40, 9),
    "bench_pass_through": (80, 16),
    "bench_segments": (70, 16),
    "bench_sidecar_latency": (30, 9),
    "bench_stream_latency": (45, 13),
    "bench_sub_ranges": (80, 15),
    "bench_warm_spark": (100, 32),
    "bench_workers": (25, 8),
}
_UNKNOWN = (120, 30)
# A machine that is busy with other work takes much longer; something that hangs must not stop the rest.
_PATIENCE_S, _PATIENCE = 240, 4


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> Callable[[str, str], Scenario]:
    """Make a scenario by name (of its plot) and title. It is reported at the end if the benchmark went through."""
    made = request.node.stash.setdefault(OF_THIS_TEST, [])

    def make(name: str, title: str) -> Scenario:
        made.append(Scenario(name, title))
        return made[-1]

    return make


@pytest.fixture(scope="session")
def contenders() -> Iterator[Contenders]:
    """The processes of contenders, which serve all benchmarks."""
    made = Contenders()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark(session_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A Spark session with two task slots and with Delta, for all benchmarks. Its workers have ``session_settings``."""
    from pipestream_spark.warm_session import WarmSession

    config = tmp_path_factory.mktemp("spark") / "settings.toml"
    write_settings(config, session_settings)
    options = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(str(jar) for jar in delta_jars()),
    }
    with pytest.MonkeyPatch.context() as patch, closing(WarmSession("bench", "local[2]")) as session:
        # Only while the JVM starts: its Python workers inherit them.
        patch.setenv(CONFIG_VARIABLE, str(config))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        arguments = " ".join(f"--conf {name}={value}" for name, value in options.items())
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
        session.find()
        patch.undo()
        # At the end of the process it logs that its connections close, to a stream that pytest has closed before.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        yield session


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full_form: the quick form has no time for this benchmark")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each benchmark its time limit, and leave those that the quick form has no time for to the full one."""
    own = [item for item in items if item.path.parent == Path(__file__).parent]
    budgets = {item: sized(*BUDGETS.get(item.path.stem, _UNKNOWN)) for item in own}
    for item, budget_s in budgets.items():
        item.add_marker(pytest.mark.timeout(_PATIENCE_S + _PATIENCE * budget_s))
    left_out = [item for item in own if IS_QUICK and item.get_closest_marker("full_form")]
    config.stash[LEFT_OUT] = sorted({item.name.partition("[")[0] for item in left_out})
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    seconds = item.config.stash.setdefault(SECONDS, {})
    seconds[item.path.stem] = seconds.get(item.path.stem, 0.0) + call.duration
    if report.failed or (report.when == "call" and report.passed):
        reason = str(call.excinfo.value).strip().partition("\n")[0][:200] if call.excinfo else ""
        failure = f"{call.excinfo.typename}: {reason}" if call.excinfo else ""
        scenarios = [] if report.failed else item.stash.get(OF_THIS_TEST, [])
        name = f"{item.path.stem}::{item.name}"
        item.config.stash.setdefault(THIS_RUN, Results()).keep(name, scenarios, failure)
        # At once, so that a run that is cut off has its results.
        kept = Results.read(RESULTS)
        kept.keep(name, scenarios, failure)
        kept.write(RESULTS)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(THIS_RUN, Results())
    if not found.scenarios and not found.failed:
        return
    seconds = config.stash.get(SECONDS, {})
    terminalreporter.section("bench: seconds of each file, and its budget")
    for name, took in sorted(seconds.items(), key=lambda each: -each[1]):
        terminalreporter.write_line(f"{took:7.1f} s  of {sized(*BUDGETS.get(name, _UNKNOWN)):3} s  {name}")
    terminalreporter.section("bench")
    for line in lines(found.scenarios.values(), found.failed):
        terminalreporter.write_line(line)
    if left_out := config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(f"only in the full form: {', '.join(left_out)}")
    load = os.getloadavg()[0]
    terminalreporter.write_line(f"load at the end {load:.1f}; details: docs/performance.md ({time.strftime('%H:%M')})")
