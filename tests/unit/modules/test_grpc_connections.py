"""What holds for all calls of a gRPC module in a process: registration, health, limit, breaker, budget, TLS."""

from __future__ import annotations

import threading
import time

import grpc
import pytest

from pipestream.errors import ModuleDown, ModuleTimeout, ModuleUnavailable, SettingsInvalid, TimeBudgetSpent
from pipestream.modules.health import Health
from pipestream.modules.module import ModuleContext, profile_of
from pipestream.modules.resolve import resolve_module
from pipestream.plugins import PluginContext
from pipestream.rpc.security import ServerSecurity
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, ProcessDataResponse
from pipestream_testing.certificates import Authority
from pipestream_testing.modules import GrpcModuleServer
from pipestream_testing.waiting import wait_until

DOCUMENT = PipeDoc(doc_id="d")
PARSER, SINK = 1, 2


def echo(request, context):
    return GrpcModuleServer.answer(request.document)


def context(**values):
    return ModuleContext("graph", "node", "stream-1", **({"timeout_s": 30.0, "wait_s": 60.0} | values))


@pytest.fixture
def open_module():
    opened = []

    def make(spec, **settings):
        opened.append(resolve_module(spec, PluginContext(Settings(module_breaker_pause_s=0.05, **settings))))
        return opened[-1]

    yield make
    for module in opened:
        module.close()


# Registration.


def test_a_module_is_asked_once_what_it_is_however_often_it_is_used(open_module):
    with GrpcModuleServer(echo, capabilities=[SINK, PARSER], schema='{"type": "object"}') as server:
        first, second = open_module(server.spec), open_module(server.spec)
        profiles = [profile_of(module) for module in (first, second, first)]
        first.process(DOCUMENT, context())
        profiles.append(profile_of(second))

    assert server.registrations == 1
    assert {(each.is_parser, each.name, each.version) for each in profiles} == {(True, "parser", "1.2.3")}
    assert profiles[0].config_schema == {"type": "object"}


@pytest.mark.parametrize("health", [False, True])
def test_a_module_is_asked_again_after_its_connection_was_lost(open_module, health):
    with GrpcModuleServer(echo, capabilities=[], health=health) as server:
        if health:
            server.set_health(True)
        module = open_module(server.spec)
        module.process(DOCUMENT, context())
        assert not profile_of(module).is_parser
    with pytest.raises(ModuleUnavailable):
        module.process(DOCUMENT, context())

    with GrpcModuleServer(echo, port=server.port, capabilities=[PARSER], health=health) as upgraded:
        if health:
            upgraded.set_health(True)
        wait_until(lambda: _answers(module))
        assert profile_of(module).is_parser


def _answers(module):
    try:
        return module.process(DOCUMENT, context())
    except ModuleUnavailable:
        return None


def test_a_module_without_a_registration_has_an_empty_profile(open_module):
    with GrpcModuleServer(echo) as server:
        profile = profile_of(open_module(server.spec))

    assert (profile.is_parser, profile.config_schema, profile.problem) == (False, None, "")


# Health.


def test_the_health_of_a_module_is_what_it_says(open_module):
    with GrpcModuleServer(echo, health=True) as server, GrpcModuleServer(echo) as plain:
        module = open_module(server.spec)
        server.set_health(True)
        states = [module.health()[0]]
        server.set_health(False)
        states.append(module.health()[0])
        states.append(open_module(plain.spec).health()[0])
    health, reason = module.health()

    assert states == [Health.SERVING, Health.NOT_SERVING, Health.UNWATCHED]
    assert (health, "UNAVAILABLE" in reason) == (Health.UNREACHABLE, True)


def test_calls_wait_while_a_module_says_that_it_is_not_serving(open_module):
    done = threading.Event()
    with GrpcModuleServer(echo, health=True) as server:
        server.set_health(True)
        module = open_module(server.spec)
        module.process(DOCUMENT, context())
        server.set_health(False)
        wait_until(lambda: module.held_back)
        with pytest.raises(ModuleDown, match="it says that it is not serving"):
            module.process(DOCUMENT, context(wait_s=0.1))

        thread = threading.Thread(target=lambda: (module.process(DOCUMENT, context()), done.set()))
        thread.start()
        assert not done.wait(0.3)
        server.set_health(True)
        assert done.wait(60)
        thread.join()


# The breaker.


def test_a_module_that_is_down_is_not_called_until_it_is_back(open_module):
    with GrpcModuleServer(echo) as server:
        module = open_module(server.spec)
    for _ in range(2):
        with pytest.raises(ModuleUnavailable):
            module.process(DOCUMENT, context())
    with pytest.raises(ModuleDown, match=r"UNAVAILABLE.*Start it, then run again"):
        module.process(DOCUMENT, context(wait_s=0.2))

    answers = []
    thread = threading.Thread(target=lambda: answers.append(module.process(DOCUMENT, context())))
    thread.start()
    with GrpcModuleServer(echo, port=server.port):
        thread.join(60)

    assert [answer.documents for answer in answers] == [[DOCUMENT]]


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_an_error_that_a_module_answers_does_not_open_the_breaker(open_module, code):
    with GrpcModuleServer(lambda request, call: call.abort(code, "no")) as server:
        module = open_module(server.spec)
        for _ in range(5):
            with pytest.raises(Exception, match=code.name):
                module.process(DOCUMENT, context(wait_s=0))
        assert module.held_back == ""


def test_a_document_that_its_module_never_finishes_does_not_keep_the_breaker_open(open_module):
    released = threading.Event()

    def hang_on_slow(request, call):
        if request.document.doc_id == "slow":
            released.wait(60)
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(hang_on_slow) as server:
        module = open_module(server.spec)
        for _ in range(3):
            with pytest.raises(ModuleTimeout):
                module.process(PipeDoc(doc_id="slow"), context(timeout_s=0.2))
        answer = module.process(DOCUMENT, context())
        released.set()

    assert answer.documents == [DOCUMENT]


# Limits and budgets.


def test_a_process_makes_no_more_calls_at_once_than_the_setting_says(open_module):
    lock, inside, most = threading.Lock(), [0], [0]
    are_two = threading.Event()

    def count(request, call):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if inside[0] == 2:
                are_two.set()
        are_two.wait(60)
        time.sleep(0.02)  # in which a third would come
        with lock:
            inside[0] -= 1
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(count) as server:
        modules = [open_module(server.spec, module_concurrency=2) for _ in range(6)]
        threads = [threading.Thread(target=each.process, args=(DOCUMENT, context())) for each in modules]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert most == [2]


def test_of_those_who_share_a_connection_the_one_that_allows_most_calls_decides(open_module):
    released, lock, inside = threading.Event(), threading.Lock(), []

    def hold(request, call):
        with lock:
            inside.append(request.document.doc_id)
        released.wait(60)
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(hold) as server:
        narrow, wide = open_module(server.spec, module_concurrency=1), open_module(server.spec, module_concurrency=3)
        threads = [threading.Thread(target=narrow.process, args=(DOCUMENT, context())) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(inside) == 3)
        wide.close()
        with pytest.raises(ModuleUnavailable, match="1 other calls"):
            narrow.process(DOCUMENT, context(timeout_s=0.1))
        released.set()
        for thread in threads:
            thread.join(60)


def test_a_call_that_gets_no_slot_in_time_is_worth_a_retry(open_module):
    released, began = threading.Event(), threading.Event()

    def hold(request, call):
        began.set()
        released.wait(60)
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(hold) as server:
        module = open_module(server.spec, module_concurrency=1)
        thread = threading.Thread(target=module.process, args=(DOCUMENT, context()))
        thread.start()
        assert began.wait(60)
        with pytest.raises(ModuleUnavailable, match="module_concurrency") as caught:
            module.process(DOCUMENT, context(timeout_s=0.1))
        released.set()
        thread.join(60)

    assert caught.value.error_type == "RESOURCE_EXHAUSTED"


def test_a_call_gets_no_more_time_than_the_stream_has_left(open_module):
    left = []

    def note(request, call):
        left.append(call.time_remaining())
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(note) as server:
        module = open_module(server.spec)
        module.process(DOCUMENT, context(deadline=time.monotonic() + 20))
        with pytest.raises(TimeBudgetSpent):
            module.process(DOCUMENT, context(deadline=time.monotonic()))

    assert len(left) == 1
    assert left[0] <= 20


def test_callers_with_little_time_do_not_hold_back_the_calls_of_others(open_module):
    released = threading.Event()

    def hang_on_slow(request, call):
        if request.document.doc_id == "slow":
            released.wait(60)
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(hang_on_slow) as server:
        module = open_module(server.spec, module_breaker_failures=1)
        with pytest.raises(ModuleTimeout):
            module.process(PipeDoc(doc_id="slow"), context(deadline=time.monotonic() + 1))
        assert module.held_back == ""

        def is_held_back():
            with pytest.raises(ModuleTimeout):
                module.process(PipeDoc(doc_id="slow"), context(timeout_s=0.2))
            return module.held_back

        # On a busy machine a call may begin late. Then it had little time too, and the next one tells.
        assert "took longer" in wait_until(is_held_back)
        released.set()


def test_a_call_waits_for_a_module_that_is_down_no_longer_than_the_stream_has_left(open_module):
    with GrpcModuleServer(echo) as server:
        module = open_module(server.spec)
    for _ in range(2):
        with pytest.raises(ModuleUnavailable):
            module.process(DOCUMENT, context())

    with pytest.raises((ModuleDown, TimeBudgetSpent)):
        module.process(DOCUMENT, context(deadline=time.monotonic() + 0.3))


# TLS and tokens.


def test_a_module_is_called_by_mutual_tls_with_a_token(open_module, tmp_path):
    seen = []

    def note(request, call):
        seen.append(dict(call.invocation_metadata()).get("authorization"))
        return GrpcModuleServer.answer(request.document)

    authority = Authority(tmp_path, "ca")
    own, client = authority.issue("module"), authority.issue("client")
    security = ServerSecurity(own.certificate, own.key, authority.certificate)
    with GrpcModuleServer(note, credentials=security.credentials()) as server:
        module = open_module(
            server.spec,
            module_ca_file=authority.certificate,
            module_client_cert_file=client.certificate,
            module_client_key_file=client.key,
            module_token="secret-token",
        )
        assert module.process(DOCUMENT, context()).documents == [DOCUMENT]
        for wrong in ({}, {"module_ca_file": authority.certificate}):
            with pytest.raises(ModuleUnavailable):
                open_module(server.spec, **wrong).process(DOCUMENT, context())

    assert seen == ["Bearer secret-token"]


def test_a_certificate_that_cannot_be_read_stops_the_run_before_any_document(open_module, tmp_path):
    with pytest.raises(SettingsInvalid, match="cannot be read"):
        open_module("grpc:localhost:1", module_ca_file=tmp_path / "none.pem")


# Error codes.


@pytest.mark.parametrize(
    ("code", "error_type", "is_transient"),
    [
        ("DEADLINE_EXCEEDED", "TIMEOUT", True),
        ("UNAVAILABLE", "UNAVAILABLE", True),
        ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", True),
        ("ABORTED", "ABORTED", True),
        ("NOT_FOUND", "NOT_FOUND", False),
        ("INVALID_ARGUMENT", "INVALID_ARGUMENT", False),
        ("FAILED_PRECONDITION", "INVALID_STATE", False),
        ("INTERNAL", "INTERNAL", False),
    ],
)
def test_a_status_has_a_name_and_is_worth_a_retry_or_not(open_module, code, error_type, is_transient):
    with GrpcModuleServer(lambda request, call: call.abort(getattr(grpc.StatusCode, code), "no")) as server:
        error = _error(open_module(server.spec))

    assert (error.error_type, error.transient) == (error_type, is_transient)


def test_a_service_can_say_which_code_it_means(open_module):
    def refuse(request, call):
        call.set_trailing_metadata([("pipestream-error-code", "VALIDATION_ERROR")])
        call.abort(grpc.StatusCode.FAILED_PRECONDITION, "page 0")

    with GrpcModuleServer(refuse) as server:
        error = _error(open_module(server.spec))

    assert (error.error_type, error.transient) == ("VALIDATION_ERROR", False)


@pytest.mark.parametrize("key", ["code", "type", "error_code"])
@pytest.mark.parametrize(
    ("code", "is_transient"),
    [
        ("TIMEOUT", True),
        ("UNAVAILABLE", True),
        ("RESOURCE_EXHAUSTED", True),
        ("NOT_FOUND", False),
        ("INVALID_ARGUMENT", False),
        ("INVALID_STATE", False),
        ("VALIDATION_ERROR", False),
    ],
)
def test_a_module_can_answer_with_a_code_of_its_own(open_module, key, code, is_transient):
    def fail(request, call):
        response = ProcessDataResponse(outcome=3)
        response.error_details[key] = code
        return response

    with GrpcModuleServer(fail) as server:
        error = _error(open_module(server.spec))

    assert (error.error_type, error.transient) == (code, is_transient)
    assert isinstance(error, ModuleTimeout) == (code == "TIMEOUT")


def _error(module):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its kind is what the test asks
        module.process(DOCUMENT, context())
    return caught.value
