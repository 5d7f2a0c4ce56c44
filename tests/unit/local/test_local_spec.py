from __future__ import annotations

from pathlib import Path

import pytest

from pipestream.errors import StackError
from pipestream.local import Stack
from pipestream.local.spec import PORT_NAMES, VARIABLES, Ports, load_spec, port_variable
from pipestream.local.state import StackState, write_state


def test_without_arguments_and_variables_the_stack_is_embedded_in_the_current_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    spec = load_spec(environment={})

    assert (spec.profile, spec.folder, spec.ports, spec.airflow) == (
        "embedded",
        tmp_path / ".pipestream",
        Ports(),
        False,
    )


def test_default_ports_do_not_meet():
    ports = [getattr(Ports(), name) for name in PORT_NAMES]

    assert len(set(ports)) == len(ports)


def test_the_environment_sets_profile_folder_and_ports():
    environment = {
        "PIPESTREAM_STACK_PROFILE": "full",
        "PIPESTREAM_STACK_FOLDER": "/srv/stack",
        "PIPESTREAM_STACK_KAFKA_PORT": "29092",
    }

    spec = load_spec(environment=environment)

    assert (spec.profile, spec.folder, spec.ports.kafka) == ("full", Path("/srv/stack"), 29092)
    assert spec.ports.postgres == Ports().postgres


def test_an_argument_beats_the_environment():
    environment = {"PIPESTREAM_STACK_KAFKA_PORT": "29092", "PIPESTREAM_STACK_PROFILE": "full"}

    spec = load_spec(profile="embedded", kafka_port=0, environment=environment)

    assert (spec.profile, spec.ports.kafka) == ("embedded", 0)


def test_a_folder_keeps_its_profile(tmp_path):
    write_state(tmp_path / "stack.json", StackState("full", False, Ports()))

    spec = load_spec(folder=tmp_path, environment={})

    assert spec.profile == "full"
    reason = "is full; one that is embedded keeps its documents and leases elsewhere .* PIPESTREAM_STACK_FOLDER"
    with pytest.raises(StackError, match=reason):
        Stack(load_spec(profile="embedded", folder=tmp_path, environment={})).up()


def test_a_stack_keeps_its_project_wherever_commands_are_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, project = tmp_path / "stack", tmp_path / "project"
    project.mkdir()
    assert load_spec(folder=folder, environment={}).project == tmp_path

    write_state(folder / "stack.json", StackState("full", False, Ports(), project=str(project)))
    assert load_spec(folder=folder, environment={}).project == project
    assert load_spec(folder=folder, environment={"PIPESTREAM_STACK_PROJECT": "other"}).project == tmp_path / "other"

    project.rmdir()
    assert load_spec(folder=folder, environment={}).project == tmp_path


def test_free_ports_ignore_the_ports_of_the_environment():
    spec = load_spec(free_ports=True, s3_port=7070, environment={"PIPESTREAM_STACK_KAFKA_PORT": "29092"})

    assert (spec.ports.kafka, spec.ports.s3) == (0, 7070)


@pytest.mark.parametrize("value", ["http", "-1", "65536", "1.5"])
def test_a_bad_port_is_refused_with_the_name_of_its_variable(value):
    with pytest.raises(StackError, match="PIPESTREAM_STACK_S3_PORT must be a port from 0 to 65535"):
        load_spec(environment={"PIPESTREAM_STACK_S3_PORT": value})


def test_an_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(StackError, match="PIPESTREAM_STACK_PROFILE must be embedded or full, not 'half'"):
        load_spec(profile="half", environment={})


def test_a_misspelt_variable_is_refused():
    with pytest.raises(StackError, match="unknown variable PIPESTREAM_STACK_KAFKAPORT"):
        load_spec(environment={"PIPESTREAM_STACK_KAFKAPORT": "1"})


def test_a_misspelt_port_argument_is_refused():
    with pytest.raises(StackError, match="unknown port kafak_port"):
        load_spec(kafak_port=1, environment={})


def test_every_port_has_a_documented_variable():
    assert {port_variable(name) for name in PORT_NAMES} < set(VARIABLES)
