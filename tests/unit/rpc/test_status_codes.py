from __future__ import annotations

import grpc
import pytest

from pipestream import errors
from pipestream.rpc.status import coded_message, details_of, status_of

PROBLEM = errors.Problem("g", None, "nodes", "wrong")


@pytest.mark.parametrize(
    ("error", "code", "error_code"),
    [
        (errors.TimeBudgetSpent("over"), "DEADLINE_EXCEEDED", "TIMEOUT"),
        (TimeoutError(), "DEADLINE_EXCEEDED", "TIMEOUT"),
        (errors.ModuleTimeout("slow"), "UNAVAILABLE", "TIMEOUT"),
        (errors.BrokerUnavailable("no broker"), "UNAVAILABLE", "UNAVAILABLE"),
        (errors.StoreUnavailable("no store"), "UNAVAILABLE", "UNAVAILABLE"),
        (errors.ProducerFenced("t"), "ABORTED", "UNAVAILABLE"),
        (errors.Overloaded("full"), "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
        (errors.RecordTooLarge("t", "out", 2, 1, 0), "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"),
        (errors.DocumentMissing("gone"), "NOT_FOUND", "NOT_FOUND"),
        (errors.SegmentDamaged("segments/a/n/h/u@9:5", "it ends"), "NOT_FOUND", "NOT_FOUND"),
        (errors.TopicMissing("t"), "NOT_FOUND", "NOT_FOUND"),
        (errors.RecordInvalid("no document"), "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        (errors.IdInvalid("../x"), "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        (errors.KeyReused("k"), "FAILED_PRECONDITION", "INVALID_STATE"),
        (errors.ModuleFailed("broke"), "FAILED_PRECONDITION", "INVALID_STATE"),
        (errors.GraphInvalid([PROBLEM]), "FAILED_PRECONDITION", "VALIDATION_ERROR"),
        (errors.ConditionError("e", "no such key"), "FAILED_PRECONDITION", "VALIDATION_ERROR"),
        (errors.SettingsInvalid("wrong"), "INTERNAL", "INVALID_STATE"),
        (KeyError("a secret"), "INTERNAL", "INVALID_STATE"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_error_has_a_status_and_a_code_that_say_what_to_do(error, code, error_code):
    status = status_of(error)

    assert (status.code.name, status.error_code) == (code, error_code)
    assert coded_message(error).startswith(f"{error_code}: ")
    assert "a secret" not in details_of(error)


def test_no_error_of_the_tree_is_unknown_and_every_transient_one_may_be_repeated():
    def leaves(base):
        yield base
        for child in base.__subclasses__():
            yield from leaves(child)

    may_repeat = {"UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION"}
    for kind in leaves(errors.PipestreamError):
        error = kind.__new__(kind)
        assert status_of(error).code is not grpc.StatusCode.UNKNOWN
        if kind.transient:
            assert status_of(error).code.name in may_repeat, kind


def test_a_transient_failure_at_a_node_without_dead_letters_may_be_repeated():
    from pipestream.engine.dead_letter_record import DeadLettersOff

    passing = DeadLettersOff("a", "t", 0, 1, errors.ModuleUnavailable("away"))
    lasting = DeadLettersOff("a", "t", 0, 1, errors.ModuleFailed("broke"))

    assert status_of(passing).code is grpc.StatusCode.UNAVAILABLE
    assert status_of(lasting).code is grpc.StatusCode.FAILED_PRECONDITION
