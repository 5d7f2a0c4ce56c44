"""How long a document takes through a sidecar at a low rate: from its publication to the committed output."""

from __future__ import annotations

import pytest

from pipestream_testing.bench import sized
from pipestream_testing.latency import measure_latency
from pipestream_testing.sidecars import SidecarProcess, apply_streaming
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

DOCUMENTS = sized(100, 25)
PAUSE_S = 0.2


def test_latency_of_a_sidecar_at_a_low_rate(pipeline, unique, scenario):
    intake = f"intake.{unique}"
    apply_streaming(pipeline, intake)
    sidecar = SidecarProcess(pipeline, "bench")
    try:
        sidecar.wait_ready()
        wait_until(lambda: sidecar.statuses() == {intake: "ACTIVE"})
        output = f"pipestream.{unique}.second"
        took = measure_latency(pipeline.settings, intake, output, documents=DOCUMENTS, pause_s=PAUSE_S)
    finally:
        sidecar.kill()
    made = scenario("latency-sidecar", f"Publish to committed output by a sidecar, a document every {PAUSE_S:g} s")
    made.add("pipestream sidecar", "s", *took)
    made.want_of("seconds, p50", "pipestream sidecar", at_most=0.5)
