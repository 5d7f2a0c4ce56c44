"""What OpenLineage is told of a drain is what the drain left in the topics."""

from __future__ import annotations

import pytest

from pipestream.graph.flow import topic_targets
from pipestream.views.lineage import drain_lineage, topic_dataset

pytestmark = pytest.mark.stack


def test_the_lineage_of_a_real_drain_counts_what_is_in_its_topics(pipeline, unique):
    intake, second, happy_end = f"intake.{unique}", f"pipestream.{unique}.second", f"pipestream.{unique}.happy-end"
    pipeline.send(intake, ["a", "b", "bad", "fused"])

    told = {}
    for topic in (intake, second):
        report = pipeline.drain(topic, f"run of {topic}")
        told[topic] = drain_lineage(report, pipeline.graph, topic_targets(pipeline.graph)[topic], pipeline.settings)

    settings = pipeline.settings
    assert told[intake].inputs[0] == topic_dataset(intake, settings, 4)
    assert topic_dataset(second, settings, len(pipeline.read(second))) in told[intake].outputs
    # The fused node ran in the first drain, and the second one took the other documents to their end.
    ended = [
        each.records for lineage in told.values() for each in lineage.outputs if each.name == happy_end and each.records
    ]
    assert ended == [1, 2]
    assert len(pipeline.read(happy_end)) == 3
    assert topic_dataset(f"dlq.{unique}.second", settings) in told[second].outputs
    assert len(pipeline.read(f"dlq.{unique}.second")) == 1
