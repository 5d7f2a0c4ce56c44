from __future__ import annotations

import signal
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream.errors import GraphInvalid, ModuleFailed, ModuleUnavailable, TransientError
from pipestream.modules import deadline
from pipestream.modules.callables import MAX_FAN_OUT
from pipestream.modules.module import ModuleContext
from pipestream.modules.resolve import ModuleSpec, parse_module, resolve_module
from pipestream.wire import PipeDoc

FAULTS = "python:pipestream_testing.modules:"


def context(timeout_s: float = 5.0, attempt: int = 1, **config: object) -> ModuleContext:
    return ModuleContext("graph", "node", "stream-1", attempt=attempt, config=config, timeout_s=timeout_s)


def in_thread(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)


@pytest.fixture
def module_file(tmp_path, monkeypatch):
    """Return a function that writes an importable module and returns the spec of its ``step``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str, name: str = "written_module") -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        sys.modules.pop(name, None)
        return f"python:{name}:step"

    yield write
    sys.modules.pop("written_module", None)


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("", ModuleSpec("identity")),
        ("python:a.b:c", ModuleSpec("python", "a.b:c")),
        ("grpc:host:50051", ModuleSpec("grpc", "host:50051")),
        ("grpc:[::1]:50051", ModuleSpec("grpc", "[::1]:50051")),
        ("unix:/run/m.sock", ModuleSpec("unix", "/run/m.sock")),
    ],
)
def test_takes_every_form_of_module_apart(spec, parsed):
    assert parse_module(spec) == parsed


@pytest.mark.parametrize(
    "spec",
    [
        "python",
        "python:os",
        "python:os:",
        "python:..os:path",
        "python:os:path.join",
        "python:a b:c",
        "grpc:host",
        "grpc:host:0",
        "grpc:host:70000",
        "grpc::50051",
        "unix:relative.sock",
        "unix:/" + "x" * 107,
        "http://host",
        "identity",
    ],
)
def test_refuses_what_is_not_a_module_and_says_what_is(spec):
    with pytest.raises(GraphInvalid, match=r"is not a module.*python:package\.module:function"):
        resolve_module(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("python:no_such_package.x:f", "cannot import no_such_package.x: ModuleNotFoundError"),
        ("python:pipestream.ids:no_such_function", "pipestream.ids has no no_such_function"),
        ("python:pipestream.settings:ENV_PREFIX", "ENV_PREFIX of pipestream.settings is str, which cannot be called"),
    ],
)
def test_a_callable_that_is_not_there_refuses_the_graph(spec, message):
    with pytest.raises(GraphInvalid, match=message):
        resolve_module(spec)


def test_a_module_that_fails_while_it_is_imported_refuses_the_graph(module_file):
    with pytest.raises(GraphInvalid, match="RuntimeError: no licence"):
        resolve_module(module_file("raise RuntimeError('no licence')"))


def test_an_empty_module_passes_documents_through():
    document = PipeDoc(doc_id="d")

    assert resolve_module("").process(document, context()) == [document]


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        pytest.param("return document", ["d"], id="one"),
        pytest.param("return None", [], id="none"),
        pytest.param("return []", [], id="empty list"),
        pytest.param("return [document, PipeDoc(doc_id='e')]", ["d", "e"], id="list"),
        pytest.param("yield document; yield PipeDoc(doc_id='e')", ["d", "e"], id="generator"),
    ],
)
def test_a_callable_answers_with_one_several_or_no_documents(module_file, body, ids):
    spec = module_file(f"""
        from pipestream.wire import PipeDoc
        def step(document, context):
            {body}
    """)

    produced = resolve_module(spec).process(PipeDoc(doc_id="d"), context())

    assert [document.doc_id for document in produced] == ids


def test_a_callable_may_say_that_it_did_only_part_of_its_work(module_file):
    spec = module_file("""
        from pipestream.modules.module import Answer, HopStatus
        def step(document, context):
            return Answer([document], HopStatus.PARTIAL, problems=("page 3 is blank",))
    """)

    answer = resolve_module(spec).process(PipeDoc(doc_id="d"), context())

    assert ([document.doc_id for document in answer.documents], answer.status) == (["d"], "PARTIAL")
    assert answer.problems == ("page 3 is blank",)


def test_a_generator_that_yields_one_object_again_and_again_gives_distinct_documents():
    produced = resolve_module(FAULTS + "fanning_out").process(PipeDoc(doc_id="d"), context(copies=3))

    assert [document.search_metadata.title for document in produced] == ["part 0", "part 1", "part 2"]


def test_the_callers_document_is_never_changed(module_file):
    document = PipeDoc(doc_id="d")
    spec = module_file("""
        def step(document, context):
            document.doc_id = "changed"
            return document
    """)

    produced = resolve_module(spec).process(document, context())

    assert (document.doc_id, produced[0].doc_id) == ("d", "changed")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("42", "returned int; expected a PipeDoc"),
        ("'text'", "returned str; expected a PipeDoc"),
        ("b'bytes'", "returned bytes; expected a PipeDoc"),
        ("{'doc_id': 'd'}", "returned dict; expected a PipeDoc"),
        ("True", "returned bool; expected a PipeDoc"),
        ("[document, 'text']", "item 1 of its answer is str, not PipeDoc"),
    ],
)
def test_any_other_answer_is_a_failure_that_names_its_type(module_file, value, message):
    spec = module_file(f"def step(document, context): return {value}")

    with pytest.raises(ModuleFailed, match=message):
        resolve_module(spec).process(PipeDoc(), context())


def test_a_callable_that_never_stops_yielding_fails(module_file):
    spec = module_file("""
        def step(document, context):
            while True:
                yield document
    """)

    with pytest.raises(ModuleFailed, match=f"more than {MAX_FAN_OUT} documents"):
        resolve_module(spec).process(PipeDoc(), context(timeout_s=60))


def test_an_exception_becomes_a_failure_with_its_type_and_message():
    with pytest.raises(ModuleFailed, match=r"modules:raising: ValueError: broken on purpose") as caught:
        resolve_module(FAULTS + "raising").process(PipeDoc(), context())

    assert isinstance(caught.value.__cause__, ValueError)


def test_a_callable_that_calls_exit_fails_instead_of_ending_the_drain(module_file):
    spec = module_file("import sys\ndef step(document, context): sys.exit(3)")

    with pytest.raises(ModuleFailed, match="SystemExit: 3"):
        resolve_module(spec).process(PipeDoc(), context())


def test_a_long_message_is_cut(module_file):
    spec = module_file("def step(document, context): raise ValueError('x' * 100_000)")

    with pytest.raises(ModuleFailed) as caught:
        resolve_module(spec).process(PipeDoc(), context())

    assert len(str(caught.value)) < 600


def test_a_transient_error_of_the_callable_stays_transient():
    module = resolve_module(FAULTS + "flaky")

    with pytest.raises(TransientError, match="flaky on purpose, try 1"):
        module.process(PipeDoc(), context(attempt=1))
    assert len(module.process(PipeDoc(), context(attempt=2))) == 1


def test_a_failure_raised_by_the_callable_is_not_wrapped(module_file):
    spec = module_file("""
        from pipestream.errors import ModuleFailed
        def step(document, context): raise ModuleFailed("row 3 has no id")
    """)

    with pytest.raises(ModuleFailed, match=r"^row 3 has no id$"):
        resolve_module(spec).process(PipeDoc(), context())


COUNTING = """
    import threading, time
    from pipestream import declare_module

    inside, most, meeting = [], [], threading.Barrier(2)

    def step(document, context):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()

    @declare_module(is_concurrent=True)
    def meet(document, context):
        meeting.wait(60)
"""


def call_in_threads(spec: str, count: int) -> None:
    """Call a function in threads, each of which has opened it for itself, as streams and engines do."""
    with ThreadPoolExecutor(count) as pool:
        for call in [pool.submit(resolve_module(spec).process, PipeDoc(), context(60)) for _ in range(count)]:
            call.result()


def test_a_function_gets_one_document_at_a_time_in_a_process(module_file):
    spec = module_file(COUNTING)

    call_in_threads(spec, 8)

    assert sys.modules["written_module"].most == [1] * 8


def test_a_function_that_declares_to_be_concurrent_gets_several_at_once(module_file):
    spec = module_file(COUNTING).replace(":step", ":meet")

    call_in_threads(spec, 2)  # each waits for the other


@pytest.mark.parametrize("fault", ["hanging", "spinning"])
def test_a_callable_that_hangs_in_the_main_thread_runs_out_of_time(fault):
    with pytest.raises(ModuleUnavailable, match=f"{fault} took longer than 0.2 s"):
        resolve_module(FAULTS + fault).process(PipeDoc(), context(timeout_s=0.2))


def test_a_callable_that_swallows_the_interruption_is_interrupted_again(module_file):
    spec = module_file("""
        def step(document, context):
            swallowed = False
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    if swallowed:
                        raise
                    swallowed = True
    """)

    with pytest.raises(ModuleUnavailable, match="took longer"):
        resolve_module(spec).process(PipeDoc(), context(timeout_s=0.1))


@pytest.mark.parametrize("fault", ["hanging", "spinning"])
def test_a_callable_that_hangs_in_another_thread_runs_out_of_time(fault):
    caught = []

    def run() -> None:
        try:
            resolve_module(FAULTS + fault).process(PipeDoc(), context(timeout_s=0.2))
        except ModuleUnavailable as error:
            caught.append(str(error))

    in_thread(run)

    assert caught == [f"{FAULTS}{fault} took longer than 0.2 s"]


def test_a_loop_left_behind_in_another_thread_is_ended():
    def calls() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "module-call"]

    before = set(calls())

    def run() -> None:
        with pytest.raises(ModuleUnavailable):
            resolve_module(FAULTS + "spinning").process(PipeDoc(), context(timeout_s=0.1))

    in_thread(run)
    for left in set(calls()) - before:
        left.join(120)

    assert set(calls()) <= before


def test_no_more_calls_are_begun_while_too_many_hang_in_other_threads(monkeypatch):
    blocked = threading.Event()
    hanging = [threading.Thread(target=blocked.wait, daemon=True) for _ in range(deadline._MAX_HANGING)]
    for thread in hanging:
        thread.start()
    monkeypatch.setattr(deadline, "_hanging", list(hanging))
    caught, passed = [], []

    def run() -> None:
        try:
            passed.extend(resolve_module(FAULTS + "passing").process(PipeDoc(), context()))
        except ModuleUnavailable as error:
            caught.append(str(error))

    in_thread(run)
    assert "restart it" in caught[0]

    blocked.set()
    for thread in hanging:
        thread.join(120)
    in_thread(run)
    assert len(passed) == 1


def test_errors_of_a_callable_in_another_thread_come_home():
    caught = []

    def run() -> None:
        try:
            resolve_module(FAULTS + "raising").process(PipeDoc(), context())
        except ModuleFailed as error:
            caught.append(str(error))

    in_thread(run)

    assert caught == [f"{FAULTS}raising: ValueError: broken on purpose"]


def test_an_alarm_that_was_set_before_the_call_still_rings_after_it():
    rang = threading.Event()
    outer_left_s, outer_interval_s = signal.getitimer(signal.ITIMER_REAL)
    outer = signal.signal(signal.SIGALRM, lambda *_: rang.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 300)
        with pytest.raises(ModuleUnavailable):
            resolve_module(FAULTS + "spinning").process(PipeDoc(), context(timeout_s=0.1))

        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left_s <= 299.9
        assert not rang.is_set()
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # the rest of its time, in short
        assert rang.wait(120)
    finally:
        signal.signal(signal.SIGALRM, outer)
        signal.setitimer(signal.ITIMER_REAL, outer_left_s, outer_interval_s)


def test_no_alarm_is_left_behind_by_a_call():
    before_s, _ = signal.getitimer(signal.ITIMER_REAL)
    resolve_module(FAULTS + "passing").process(PipeDoc(), context(timeout_s=1_000))

    after_s, _ = signal.getitimer(signal.ITIMER_REAL)
    # What pytest-timeout has set runs on, and the call's 1,000 s are gone.
    assert before_s - 120 < after_s <= before_s
