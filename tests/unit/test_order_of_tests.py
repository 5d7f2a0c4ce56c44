"""The order of a whole test run, and what runs in one process."""

from __future__ import annotations

from pathlib import Path

from pipestream_testing.scheduling import LONG_FOLDERS, ONE_PROCESS, group_of, turn_of

REPOSITORY = Path(__file__).resolve().parents[2]


def test_what_needs_no_servers_comes_first_then_what_is_long_then_what_needs_consul():
    files = {
        "tests/integration/test_streams.py": {"stack"},
        "tests/integration/test_leases_consul.py": {"stack", "consul"},
        "tests/faults/test_servers_killed.py": {"stack", "consul"},
        "tests/dags/test_end_to_end.py": {"stack", "airflow", "consul"},
        "tests/faults/test_streams_killed.py": {"stack"},
        "tests/dags/test_openlineage.py": {"stack", "airflow"},
        "tests/unit/test_times.py": set(),
        "tests/faults/test_model_of_crashes.py": set(),
    }

    in_order = sorted(files, key=lambda file: turn_of(file, files[file]))

    assert in_order == list(reversed(files))


def test_files_that_share_a_server_run_in_one_process_and_others_by_file():
    assert {group_of(f"tests/web/test_{name}.py::test_a[x::y]") for name in ("access", "reading")} == {"web"}
    assert group_of("tests/unit/test_times.py::test_a[x::y]") == "tests/unit/test_times.py"


def test_what_is_named_exists():
    named = [*LONG_FOLDERS, *(start for starts in ONE_PROCESS.values() for start in starts)]

    assert [name for name in named if not (REPOSITORY / name).exists()] == []
