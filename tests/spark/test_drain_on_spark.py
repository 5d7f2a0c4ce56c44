from __future__ import annotations

from contextlib import closing

import pytest

from pipestream.leases import DesiredState, open_lease_store
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.submit import connect_drain, submit_drain

pytestmark = [pytest.mark.stack, pytest.mark.spark]


# The one test of the default run that submits a drain to the cluster. The others use the Spark Connect server.
def test_a_drain_that_is_submitted_to_a_spark_cluster_delivers_every_document_once(
    pipeline, unique, spark_env, spark_cluster
):
    topic = f"intake.{unique}"
    pipeline.send(topic, [f"a{n}" for n in range(40)], partition=0)
    pipeline.send(topic, [f"b{n}" for n in range(60)], partition=1)

    done = submit_drain(pipeline, topic, "run-1", spark_env, master=spark_cluster)

    assert done.exit_code == 0, done.log
    assert done.outcome["status"] == "drained"
    assert (done.outcome["ranges"], done.outcome["records"]) == (2, 100)
    assert sorted(pipeline.doc_ids(f"pipestream.{unique}.second").values()) == [1] * 100
    pipeline.check_ledger_tiles(topic)


@pytest.mark.usefixtures("spark_connect")
def test_two_slots_are_at_work_on_a_spark_cluster_at_the_same_moment(graph_text, settings, tmp_path, spark_env):
    module = "pipestream_testing.steps:pass_on\n  - id: second"
    meeting = f"pipestream_testing.modules:meeting\n    config: {{folder: {tmp_path}, parties: 2}}\n  - id: second"
    file = tmp_path / "meeting.yaml"
    file.write_text(graph_text.replace(module, meeting))
    pipeline = Pipeline(settings, file)
    pipeline.create_topics()
    topic = f"intake.{pipeline.graph.graph_id}"
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    with closing(open_lease_store(settings)) as leases:
        leases.set_desired(topic, DesiredState(replicas=2))

    done = connect_drain(pipeline, topic, "run-1", spark_env)

    assert done.exit_code == 0, done.log
    assert (done.outcome["records"], done.outcome["dead_letters"], done.outcome["ranges"]) == (2, 0, 2)
    assert {plan.slot for plan in pipeline.ledger.plans(run_id="run-1")} == {0, 1}
    pipeline.check_ledger_tiles(topic)


def test_a_job_that_cannot_succeed_says_so_and_ends_with_2(pipeline, spark_env):
    done = connect_drain(pipeline, "intake.nowhere", "run-1", spark_env)

    assert done.exit_code == 2, done.log
    assert done.outcome["transient"] is False
    assert "does not drain intake.nowhere" in done.outcome["error"]
