from __future__ import annotations

import gc

import pytest

from pipestream.drain.garbage import collect_rarely, spared_collector


@pytest.fixture(autouse=True)
def _same_thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_drain_leaves_out_what_was_there_and_gives_it_back():
    gc.set_threshold(700, 10, 10)
    before = gc.get_freeze_count()

    with spared_collector():
        assert gc.get_freeze_count() > before
        assert gc.get_threshold() == (10_000, 10, 10)

    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == (700, 10, 10)


def test_of_overlapping_drains_the_last_gives_back_what_the_first_found():
    gc.set_threshold(700, 10, 10)
    first, second = spared_collector(), spared_collector()

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (10_000, 10, 10)

    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("thresholds", [(0, 10, 10), (50_000, 5, 5)], ids=["never looks", "looks even less often"])
def test_a_process_that_looks_less_often_is_left_alone(thresholds):
    gc.set_threshold(*thresholds)

    collect_rarely()

    assert gc.get_threshold() == thresholds
