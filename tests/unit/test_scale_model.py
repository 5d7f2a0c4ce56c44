"""The model of docs/scale.md: it loses no document, agrees with the arithmetic, and shows an overload."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "scripts" / "scale_model.py"


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("scale_model", FILE)
    found = importlib.util.module_from_spec(spec)
    sys.modules["scale_model"] = found  # dataclasses look their module up
    spec.loader.exec_module(found)
    yield found
    del sys.modules["scale_model"]


def test_on_a_plant_that_fits_every_document_is_through_before_the_next_night(model):
    load = model.BILLION
    day = model.simulate(load, model.fitting(load, model.ONE_MACHINE, model.Costs()), model.Costs())

    assert day.finished == pytest.approx(load.documents_per_day, rel=0.001)
    assert day.busy["executors"] == pytest.approx(0.8, abs=0.01)
    assert max(day.busy.values()) < 1


def test_on_a_plant_that_is_too_small_documents_wait_and_none_is_lost(model):
    load, costs = model.BILLION, model.Costs()
    half = replace(model.fitting(load, model.ONE_MACHINE, costs), executor_cores=60)
    day = model.simulate(load, half, costs)

    assert day.busy["executors"] > 1
    assert day.finished < load.documents_per_day
    assert day.peak_backlog > load.documents_per_day / 24


def test_requests_cost_what_the_arithmetic_says(model):
    load, costs = model.Load(1_000_000, hops=1), model.Costs()
    day = model.simulate(load, model.fitting(load, model.ONE_MACHINE, costs), costs)

    assert day.requests == pytest.approx(2_000_000, rel=0.001)
    assert day.dollars == pytest.approx(5.4, rel=0.001)


def test_many_topics_break_the_ledger_in_batches_and_the_leases_in_streams(model):
    batches, streams = (
        model.simulate(*model.scenarios()[f"10⁹ a day in 10,000 topics, {how}"])
        for how in ("runs every 5 min", "streaming")
    )

    assert batches.first_to_break == "ledger"
    assert batches.busy["ledger"] > 1
    assert streams.first_to_break == "leases"
    assert streams.busy["ledger"] < 0.1
