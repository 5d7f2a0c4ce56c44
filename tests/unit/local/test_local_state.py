from __future__ import annotations

import json
import os
import tomllib

import psutil
import pytest

from pipestream.errors import StackError
from pipestream.local.process import ProcessRecord, find_process
from pipestream.local.spec import Ports
from pipestream.local.state import (
    StackState,
    load_secrets,
    read_state,
    toml_text,
    write_private,
    write_state,
)


@pytest.fixture
def state():
    return StackState("full", False, Ports(kafka=1), {"kafka": ProcessRecord(7, 123.5)}, "/srv/project")


def test_a_state_comes_back_as_it_was_written(tmp_path, state):
    file = tmp_path / "stack.json"

    write_state(file, state)

    assert read_state(file) == state


def test_no_file_means_no_state(tmp_path):
    assert read_state(tmp_path / "stack.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}'])
def test_a_damaged_state_file_is_refused_by_name(tmp_path, text):
    file = tmp_path / "stack.json"
    file.write_text(text)

    with pytest.raises(StackError, match=r"stack\.json is not a stack's state file"):
        read_state(file)


def test_processes_are_added_and_removed_without_touching_the_others(state):
    other = ProcessRecord(8, 9.0)

    assert state.with_process("s3", other).without_process("kafka").processes == {"s3": other}


def test_a_live_process_is_found_by_pid_and_start_time():
    me = psutil.Process()

    found = find_process(ProcessRecord(me.pid, me.create_time()))

    assert found is not None
    assert found.pid == os.getpid()


def test_a_recycled_pid_is_not_taken_for_the_server_that_had_it():
    me = psutil.Process()

    assert find_process(ProcessRecord(me.pid, me.create_time() - 3600)) is None


def test_secrets_are_made_once_and_private(tmp_path):
    file = tmp_path / "secrets.json"

    first = load_secrets(file)

    assert load_secrets(file) == first
    assert file.stat().st_mode & 0o077 == 0
    assert first.postgres_password not in repr(first)


def test_a_private_file_stays_private_when_it_replaces_an_open_one(tmp_path):
    file = tmp_path / "stack.toml"
    file.write_text("old")
    file.chmod(0o644)

    write_private(file, "new")

    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o600)


def test_toml_text_reads_back_as_toml():
    values = {
        "a": 'quote " backslash \\ ü',
        "b": 3,
        "c": 0.5,
        "d": True,
        "e": {"x.y": 'quote "', "z": {"n": 1}},
        "f": {},
    }

    assert tomllib.loads(toml_text(values)) == values


def test_the_state_file_holds_no_secret(tmp_path, state):
    write_state(tmp_path / "stack.json", state)

    assert set(json.loads((tmp_path / "stack.json").read_text())) == {
        "format",
        "profile",
        "airflow",
        "ports",
        "project",
        "live",
        "processes",
    }
