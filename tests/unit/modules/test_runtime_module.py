"""A function in processes of its own: real processes that crash, hang and lose their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from pipestream.errors import GraphInvalid, ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.modules.module import Answer, HopStatus, ModuleContext, profile_of
from pipestream.modules.resolve import resolve_module
from pipestream.modules.runtime.module import RuntimeModule
from pipestream.wire import PipeDoc
from pipestream_testing.processes import runs

STEP = "pipestream_testing.natives:step"


def document(title: str = "", doc_id: str = "d") -> PipeDoc:
    made = PipeDoc(doc_id=doc_id)
    made.search_metadata.title = title
    return made


def context(timeout_s: float = 60.0, attempt: int = 1, **config: object) -> ModuleContext:
    return ModuleContext(
        "g", "n", "s-1", attempt=attempt, idempotency_key="s-1/n/0", config=config, timeout_s=timeout_s
    )


def wait_for(condition, deadline_s: float = 60.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def shared():
    module = RuntimeModule(STEP, processes=1)
    yield module
    module.close()


@pytest.fixture
def folders(monkeypatch):
    """Where the runtimes of this test have their folders; other test runs of the machine use another one."""
    with tempfile.TemporaryDirectory(prefix="r-") as base:  # short, because it becomes part of a socket's path
        monkeypatch.setenv("TMPDIR", base)
        monkeypatch.setattr(tempfile, "tempdir", base)
        yield Path(base) / f"pipestream-runtimes-{os.getuid()}"


def pid_of(answered) -> int:
    (made,) = answered
    return int(made.search_metadata.metadata["pid"])


def test_the_function_runs_in_a_process_of_its_own_and_gets_its_context(shared):
    (made,) = shared.process(document("x"), context(attempt=2))

    assert int(made.search_metadata.metadata["pid"]) != os.getpid()
    assert made.search_metadata.metadata["context"] == "s-1 2 s-1/n/0"


def test_one_process_serves_document_after_document(shared):
    assert len({pid_of(shared.process(document("x"), context())) for _ in range(5)}) == 1


def test_several_documents_none_and_partial_work_come_back(shared):
    partial = shared.process(document("part"), context())

    assert len(shared.process(document("many"), context())) == 3
    assert shared.process(document("none"), context()) == []
    assert isinstance(partial, Answer)
    assert (partial.status, partial.problems) == (HopStatus.PARTIAL, ["page 3 is blank"])


def test_an_exception_fails_the_document_and_the_process_goes_on(shared):
    before = pid_of(shared.process(document("x"), context()))

    with pytest.raises(ModuleFailed, match="ValueError: broken on purpose") as caught:
        shared.process(document("raise"), context())
    with pytest.raises(ModuleUnavailable, match="come back later"):
        shared.process(document("unavailable"), context())

    assert caught.value.error_type == "ValueError"
    assert "natives.py" in caught.value.trace
    assert pid_of(shared.process(document("x"), context())) == before


@pytest.mark.parametrize(
    ("title", "message"),
    [
        ("crash", r"its process was killed by SIGSEGV; its last output: about to crash .*Segmentation fault"),
        ("exit", "its process ended with code 7"),
    ],
)
def test_a_crash_is_one_documents_failure_and_the_next_gets_a_new_process(shared, title, message):
    before = pid_of(shared.process(document("x"), context()))

    with pytest.raises(ModuleUnavailable, match=message):
        shared.process(document(title), context())

    assert pid_of(shared.process(document("x"), context())) != before
    assert not runs(before)


@pytest.mark.parametrize("title", ["hang", "hang in native code"])
def test_a_process_that_hangs_is_ended_and_replaced(shared, title):
    before = pid_of(shared.process(document("x"), context()))

    with pytest.raises(ModuleTimeout, match=r"took longer than 0\.3 s; its process was ended"):
        shared.process(document(title), context(timeout_s=0.3))

    assert not runs(before)
    assert pid_of(shared.process(document("x"), context())) != before


def test_a_document_that_crashed_once_succeeds_at_its_second_attempt(shared, tmp_path):
    marker = str(tmp_path / "crashed")

    with pytest.raises(ModuleUnavailable, match="SIGSEGV"):
        shared.process(document("crash once"), context(marker=marker))

    assert shared.process(document("crash once"), context(marker=marker, attempt=2))[0].doc_id == "d"


def test_a_process_that_died_while_it_was_idle_is_replaced(shared):
    before = pid_of(shared.process(document("x"), context()))
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: not runs(before))

    assert pid_of(shared.process(document("x"), context())) != before


def test_threads_share_the_processes_and_a_crash_hits_only_its_own_document():
    module = RuntimeModule(STEP, processes=2)
    titles = ["crash" if number == 3 else "x" for number in range(12)]

    def run(title: str) -> str:
        try:
            return module.process(document(title), context())[0].search_metadata.metadata["pid"]
        except ModuleUnavailable as error:
            return f"failed: {error}"

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, titles))
    owned = module.pids
    module.close()

    assert [number for number, result in enumerate(results) if result.startswith("failed")] == [3]
    assert 1 <= len(owned) <= 2
    assert not any(runs(pid) for pid in owned)


def test_close_leaves_no_process_no_child_of_it_and_no_folder(folders):
    module = RuntimeModule(STEP)
    (made,) = module.process(document("leave a child"), context())
    pid, child = (int(made.search_metadata.metadata[name]) for name in ("pid", "child"))
    (owned,) = folders.iterdir()

    module.close()

    wait_for(lambda: not runs(pid) and not runs(child))
    assert not owned.exists()
    with pytest.raises(ModuleUnavailable, match="is closed"):
        module.process(document("x"), context())


def test_a_process_ends_with_its_owner_even_while_native_code_holds_the_interpreter(folders):
    script = f"""
import sys, threading, time
from pipestream.modules.runtime.module import RuntimeModule
from pipestream.modules.module import ModuleContext
from pipestream.wire import PipeDoc
module = RuntimeModule({STEP!r}, processes=1)
context = ModuleContext("g", "n", "s")
(made,) = module.process(PipeDoc(doc_id="d"), context)
hanging = PipeDoc(doc_id="h")
hanging.search_metadata.title = "hang in native code"
threading.Thread(target=module.process, args=(hanging, context), daemon=True).start()
time.sleep(0.5)
print(made.search_metadata.metadata["pid"], flush=True)
time.sleep(3600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert runs(pid)
        owner.kill()

    wait_for(lambda: not runs(pid))
    (left,) = folders.iterdir()
    hour_ago = time.time() - 3_600
    os.utime(left, (hour_ago, hour_ago))
    module = RuntimeModule(STEP)
    module.process(document("x"), context())
    module.close()
    assert not left.exists(), "the next runtime removes what a killed owner left"


def test_a_forked_process_starts_its_own_and_leaves_its_parents_alone(shared):
    before = pid_of(shared.process(document("x"), context()))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = pid_of(shared.process(document("x"), context()))
            shared.close()
            os.write(writing, f"{own}".encode())
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    os.close(writing)
    own = int(os.read(reading, 100) or b"0")
    os.close(reading)

    assert status == 0
    assert own not in (0, before)
    wait_for(lambda: not runs(own))
    assert pid_of(shared.process(document("x"), context())) == before


def test_deaths_in_a_row_make_the_next_start_wait():
    module = RuntimeModule(STEP, processes=1)
    for _ in range(3):
        with pytest.raises(ModuleUnavailable):
            module.process(document("exit"), context())
    waits_s = module._not_before - time.monotonic()
    again = module.process(document("x"), context())
    module.close()

    assert waits_s <= 0.2
    assert again[0].doc_id == "d"
    assert module._deaths_in_row == 0


def test_a_limit_of_memory_fails_the_document_alone():
    module = RuntimeModule(STEP, processes=1, memory_mb=4_096)
    with pytest.raises(ModuleFailed, match="MemoryError"):
        module.process(document("all memory"), context())
    again = module.process(document("x"), context())
    module.close()

    assert again[0].doc_id == "d"


def test_a_function_of_one_argument_gets_the_payload():
    module = resolve_module("runtime:pipestream_testing.natives:shout")
    answered = module.process(document(doc_id="d-1"), context())
    module.close()

    assert [each.doc_id for each in answered] == ["D-1"]


def test_the_function_says_what_it_declares(shared):
    profile = profile_of(shared)

    assert (profile.name, profile.is_parser, profile.config_schema) == ("natives", True, {"type": "object"})


def test_a_python_module_that_is_not_there_refuses_the_graph():
    with pytest.raises(GraphInvalid, match=r"cannot import pipestream_testing\.nothing"):
        resolve_module("runtime:pipestream_testing.nothing:step")


def test_a_function_that_is_not_there_fails_with_the_reason():
    module = resolve_module("runtime:pipestream_testing.natives:nothing")
    with pytest.raises(ModuleFailed, match=r"pipestream_testing\.natives has no nothing"):
        module.process(document(), context())
    module.close()

    assert module.pids == []


def test_work_waits_for_a_free_process_and_gives_up_in_time():
    module = RuntimeModule(STEP, processes=1, start_timeout_s=20)
    module.process(document("x"), context())

    def block() -> None:
        with suppress(ModuleUnavailable):
            module.process(document("hang"), context(timeout_s=30.0))

    blocker = threading.Thread(target=block)
    blocker.start()
    wait_for(lambda: not module._idle)
    module._start_timeout_s = 0.2

    with pytest.raises(ModuleUnavailable, match=r"no process was free within 0\.3 s"):
        module.process(document("x"), context(timeout_s=0.3))
    module.close()
    blocker.join(60)
    assert not blocker.is_alive()
