from __future__ import annotations

import importlib
import pickle
import pkgutil
import re

import pytest

import pipestream
from pipestream import errors
from pipestream.drain.range_task import RangeFailed, RangeOutcome
from pipestream.engine.dead_letter_record import DeadLettersOff

EXAMPLES = [
    errors.LeaseUnavailable("t", 0, "run-1"),
    errors.LeaseLost("t", 0, "expired"),
    errors.ProducerFenced("t"),
    errors.PluginBroken("connector", "ftp", "acme 1.0", "no such module"),
    errors.OffsetsExpired("t", 1, 5, 9),
    errors.TopicRewound("t", 1, 5, 3),
    errors.TopicReplaced("t"),
    errors.TopicMissing("t"),
    errors.ExtraMissing("consul", "consul"),
    errors.RangeMostlyFailing("t[0] 0..99", 30, 40, "boom"),
    errors.ConditionError("a--b", "no such key"),
    errors.GraphInvalid([errors.Problem("g.yaml", 3, "edges[0].to", "unknown node", "did you mean x?")]),
    errors.GraphInUse("g", ["it is started; stop it first"]),
    errors.ModuleFailed("it broke"),
    errors.RecordTooLarge("t", "out", 2_000, 1_000, 3),
    errors.ProcessDied(["a", "b"], 2),
    errors.LedgerBusy("x"),
    errors.OtherVersion("plan p", ["color"], ["slot"], "update", reader="0.1.0", writer="0.2.0"),
    DeadLettersOff("a", "t", 0, 1, errors.ModuleFailed("it broke")),
    RangeFailed(RangeOutcome("t", 0, 1, 2, None, 0.5, "boom", transient=True)),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_crosses_processes_with_its_message_and_fields(error):
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_every_error_is_either_transient_or_terminal():
    def leaves(base):
        for child in base.__subclasses__():
            yield child
            yield from leaves(child)

    ours = [e for e in leaves(errors.PipestreamError) if e.__module__ == "pipestream.errors"]
    both = [errors.TransientError, errors.TerminalError]

    assert ours
    for error in ours:
        assert sum(issubclass(error, kind) for kind in both) == 1, error


def test_the_tree_of_errors_has_every_error_below_its_base():
    for module in pkgutil.walk_packages(pipestream.__path__, "pipestream."):
        importlib.import_module(module.name)

    def draw(base, depth):
        for child in base.__subclasses__():
            if child.__module__.startswith("pipestream.") and not child.__name__.startswith("_"):
                yield depth, child.__name__, base.__name__
                yield from draw(child, depth + 1)

    above: dict[int, str] = {}
    drawn = []
    for indent, name in re.findall(r"^( *)[*-] (\w+)", errors.__doc__, re.MULTILINE):
        depth = len(indent) // 2
        above[depth] = name
        drawn.append((depth, name, above.get(depth - 1, "")))

    assert sorted(drawn) == sorted([(0, "PipestreamError", ""), *draw(errors.PipestreamError, 1)])


def test_the_tree_says_of_every_error_what_it_concerns():
    lines = re.findall(r"^ *[*-] (\w+).*?(?:\((record|range)\))?$", errors.__doc__, re.MULTILINE)

    assert dict(lines) == {
        error.__name__: "" if error.concerns is errors.Concern.RUN else error.concerns.value for error in all_errors()
    }


def test_an_old_name_of_an_error_leads_to_the_one_it_has_now():
    known = {error.__name__ for error in all_errors()}

    assert set(errors.RENAMED.values()) <= known
    assert not set(errors.RENAMED) & known
    assert errors.names_of("CatalogueUnavailable") == {"CatalogueUnavailable", "DatabaseUnavailable"}
    assert errors.names_of("DatabaseUnavailable") == {"CatalogueUnavailable", "DatabaseUnavailable"}
    assert errors.names_of("acme.Broken") == {"acme.Broken"}


def all_errors():
    for module in pkgutil.walk_packages(pipestream.__path__, "pipestream."):
        importlib.import_module(module.name)
    waiting = [errors.PipestreamError]
    for error in waiting:
        waiting += [child for child in error.__subclasses__() if child.__module__.startswith("pipestream.")]
    return waiting


def test_a_problem_names_its_place_and_what_to_do():
    problem = errors.Problem("g.yaml", 3, "edges[0].to", "unknown node 'pars'", "did you mean parse?")

    assert str(problem) == "g.yaml:3: edges[0].to: unknown node 'pars' (did you mean parse?)"
