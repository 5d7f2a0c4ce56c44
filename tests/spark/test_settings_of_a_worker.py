from __future__ import annotations

import os

import pyarrow as pa

from pipestream.drain.range_task import RangeOutcome
from pipestream_spark.worker import Orders, drain_numbered
from pipestream_testing.made import make_task


def test_a_worker_without_usable_settings_answers_once_and_for_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(tmp_path / "elsewhere.toml"))
    task = make_task("intake.a", "n", offsets=((0, 5, 9), (1, 2, 4)))

    (answer,) = drain_numbered(Orders.of([task]), iter([pa.RecordBatch.from_pydict({"id": [0]})]))

    first, second = (RangeOutcome.from_json(text) for text in answer.column("outcome").to_pylist())
    assert [(each.partition, each.start, each.end) for each in (first, second)] == [(0, 5, 5), (1, 2, 2)]
    assert "elsewhere.toml" in first.error
    assert "on the worker" in first.error
    assert not first.transient


def test_a_worker_with_another_object_store_than_the_drain_refuses_the_range(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPESTREAM_STORE_URI", "s3://elsewhere")
    task = make_task("intake.a", "n", offsets=((0, 5, 9),))
    orders = Orders.of([task], {"PIPESTREAM_CHUNK_RECORDS": "7"}, tmp_path.as_uri())

    (answer,) = drain_numbered(orders, iter([pa.RecordBatch.from_pydict({"id": [0]})]))

    outcome = RangeOutcome.from_json(answer.column("outcome").to_pylist()[0])
    assert (outcome.start, outcome.end, outcome.transient) == (5, 5, False)
    assert "s3://elsewhere" in outcome.error
    assert "PIPESTREAM_CHUNK_RECORDS" not in os.environ
