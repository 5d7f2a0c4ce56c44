from __future__ import annotations

import pyarrow as pa

from pipestream.drain.range_task import RangeOutcome
from pipestream_spark.runner import _drain_batches
from pipestream_testing.made import make_task


def test_a_worker_without_usable_settings_answers_once_and_for_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(tmp_path / "elsewhere.toml"))
    task = make_task("intake.a", "n", offsets=((0, 5, 9), (1, 2, 4)))

    (answer,) = _drain_batches(iter([pa.RecordBatch.from_pydict({"task": [task.to_json()]})]))

    first, second = (RangeOutcome.from_json(text) for text in answer.column("outcome").to_pylist())
    assert [(each.partition, each.start, each.end) for each in (first, second)] == [(0, 5, 5), (1, 2, 2)]
    assert "elsewhere.toml" in first.error
    assert "on the worker" in first.error
    assert not first.transient
