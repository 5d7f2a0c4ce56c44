from __future__ import annotations

import pytest

from pipestream.demo.run import _clear, _only_demo, run_demo
from pipestream.errors import StackError
from pipestream.local import Stack, load_spec


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a demo that is started here."""
    monkeypatch.setenv("PIPESTREAM_STACK_FOLDER", str(tmp_path / "stack"))
    return tmp_path / "stack" / "demo"


def test_a_demo_next_to_another_is_refused_before_it_touches_anything(folder):
    told: list[str] = []

    with _only_demo(folder), pytest.raises(StackError) as caught:
        run_demo(told.append)

    assert str(caught.value) == f"another demo is running in {folder}; wait for it to end, or stop it"
    assert told == []
    assert not folder.exists()


def test_a_demo_in_another_folder_does_not_mind(folder):
    with _only_demo(folder), _only_demo(folder.with_name("other")):
        pass


@pytest.mark.parametrize("how", ["well", "badly"])
def test_when_a_demo_has_ended_the_next_may_run(folder, how):
    try:
        with _only_demo(folder):
            if how == "badly":
                raise StackError("a server did not start")
    except StackError:
        pass

    with _only_demo(folder):
        pass


def test_what_the_last_demo_left_is_removed_and_reported(folder):
    told: list[str] = []
    stack = Stack(load_spec(folder=folder))
    (folder / "ledger").mkdir(parents=True)

    _clear(stack, told.append)
    _clear(stack, told.append)

    assert told == [f"removed the last demo's folder {folder}: this one starts from nothing"]
    assert not folder.exists()
