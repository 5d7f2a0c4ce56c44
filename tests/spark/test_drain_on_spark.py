from __future__ import annotations

import pytest

from pipestream_testing.submit import submit_drain

pytestmark = [pytest.mark.stack, pytest.mark.spark]


def test_a_drain_spread_over_a_spark_cluster_delivers_every_document_once(pipeline, unique, spark_env, spark_cluster):
    topic = f"intake.{unique}"
    pipeline.send(topic, [f"a{n}" for n in range(40)], partition=0)
    pipeline.send(topic, [f"b{n}" for n in range(60)], partition=1)

    done = submit_drain(pipeline, topic, "run-1", spark_env, master=spark_cluster)

    assert done.exit_code == 0, done.log
    assert done.outcome["status"] == "drained"
    assert (done.outcome["ranges"], done.outcome["records"]) == (2, 100)
    assert sorted(pipeline.doc_ids(f"pipestream.{unique}.second").values()) == [1] * 100
    pipeline.check_ledger_tiles(topic)


def test_a_job_that_cannot_succeed_says_so_and_ends_with_2(pipeline, spark_env):
    done = submit_drain(pipeline, "intake.nowhere", "run-1", spark_env, master="local[1]")

    assert done.exit_code == 2, done.log
    assert done.outcome["transient"] is False
    assert "does not drain intake.nowhere" in done.outcome["error"]
