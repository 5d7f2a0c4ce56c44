"""A sidecar that hands documents to an engine waits for one that is away, and loses nothing."""

from __future__ import annotations

import pytest

from pipestream_testing.engine_processes import EngineProcess
from pipestream_testing.oracle import Verdict, judge
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, wait_drained
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

QUICK = {"reconcile_s": 0.3, "stream_follow_s": 0.3, "stream_record_s": 1.0, "module_wait_s": 1.0}


def test_an_engine_that_is_away_is_waited_for_and_every_document_goes_through_it_once(pipeline, unique, tmp_path):
    pipeline = Pipeline(pipeline.settings.model_copy(update=QUICK), pipeline.graph_file)
    intake, second = f"intake.{unique}", f"pipestream.{unique}.second"
    apply_streaming(pipeline)
    documents = [f"{name}-{number}" for name in ("a", "bad", "fused") for number in range(4)]
    pipeline.send(intake, documents)
    engine = EngineProcess(pipeline.settings, tmp_path, workers=1)
    sidecar = SidecarProcess(pipeline, "one", "--engine", engine.address)
    try:
        sidecar.wait_ready()
        wait_until(lambda: sidecar.statuses().get(intake) == "ERROR", "the engine's absence does not show")
        assert pipeline.read(f"dlq.intake.{unique}") == []

        engine.start()
        engine.wait_ready()

        wait_drained(pipeline, [intake, second], timeout_s=240)
        wait_until(lambda: sidecar.statuses()[intake] == "ACTIVE")
        entries = pipeline.entries(intake)
        assert sum(entry.tally.documents_out.get("handed-over", 0) for entry in entries) == len(documents)
        assert judge(pipeline, documents, [intake, second]) == Verdict(0, 0)
        assert len(pipeline.read(f"dlq.{unique}.second")) == 4  # the bad ones failed in the engine
        assert sidecar.end() == 0
    finally:
        sidecar.kill()
        if engine._process is not None:
            engine.kill()
