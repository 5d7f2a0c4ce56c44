from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from airflow import plugins_manager
from airflow.sdk.exceptions import ParamValidationError

from pipestream_airflow import drain_pool, registration
from pipestream_airflow.run_form import form
from pipestream_airflow.run_params import MODES, RunParams

PACKAGE = Path(__file__).resolve().parents[2] / "pipestream_airflow"
TOPICS = ["intake.files", "pipestream.main.enrich"]


# Airflow reads its ignore files with a class that pathspec wants to be called otherwise.
quiet_pathspec = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def load_plugins():
    """Loads the plugins anew, as a component of Airflow does when it starts."""

    def load() -> tuple[list[str | None], dict[str, str]]:
        plugins_manager._get_plugins.cache_clear()
        plugins, errors = plugins_manager._get_plugins()
        return [plugin.name for plugin in plugins], errors

    yield load
    plugins_manager._get_plugins.cache_clear()


@quiet_pathspec
def test_the_plugin_is_registered_once_by_the_package_and_its_folder_together(load_plugins):
    names, errors = load_plugins()

    assert errors == {}
    assert names.count("pipestream") == 1
    stems = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}
    assert not stems & set(sys.modules), "Airflow takes every file below plugins/ for a module of that name"


@quiet_pathspec
def test_the_plugin_is_registered_by_its_folder_where_the_package_is_not_installed(load_plugins, monkeypatch):
    monkeypatch.setattr(registration, "entry_points", lambda **_: ())
    monkeypatch.setattr(plugins_manager, "_load_entrypoint_plugins", lambda: ([], {}))

    names, errors = load_plugins()

    assert errors == {}
    assert names.count("pipestream") == 1


def test_the_plugin_does_not_import_the_app_of_the_pages():
    code = "import sys, pipestream_airflow.registration; print('pipestream_airflow.web.app' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False", "every task would wait for it"


def test_a_task_runner_does_not_touch_the_pool(monkeypatch):
    monkeypatch.setattr(drain_pool, "ensure_pool", lambda _: pytest.fail("a task has no database"))

    drain_pool.on_starting(component=object())


def test_the_form_offers_only_modes_that_there_are():
    assert form(TOPICS, 10)["mode"].schema["enum"] == list(MODES)


def test_the_defaults_of_the_form_are_a_valid_run():
    filled_in = {name: param.resolve() for name, param in form(TOPICS, 10).items()}

    params = RunParams.read(filled_in)

    assert params == RunParams("catch_up", frozenset(TOPICS), 10, accept_failures=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "sideways"),
        ("topics", ["intake.unknown"]),
        ("topics", ["intake.files", "intake.files"]),
        ("topics", "intake.files"),
        ("budget", 0),
        ("budget", "many"),
        ("accept_failures", "perhaps"),
        ("since", "yesterday"),
        ("until", 20260301),
    ],
)
def test_the_form_refuses(name, value):
    with pytest.raises(ParamValidationError):
        form(TOPICS, 10)[name].resolve(value)


@pytest.mark.parametrize(
    "moment", ["2026-03-01", "2026-03-01T06:00", "2026-03-01T06:00:00.000Z", "2026-03-01T06:00:00+02:00", "", None]
)
def test_the_form_takes_a_time(moment):
    filled_in = {name: param.resolve() for name, param in form(TOPICS, 10).items()}

    chosen = {"mode": "time_range", "since": form(TOPICS, 10)["since"].resolve(moment), "until": "2027-01-01"}
    params = RunParams.read({**filled_in, **chosen})

    assert (params.since is None) == (not moment)
