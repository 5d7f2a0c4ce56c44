from __future__ import annotations

import pytest

from pipestream.engine_server.handoff import _stream_value
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest


@pytest.mark.parametrize("size", [1, 100, 200, 20_000, 3_000_000])
def test_the_stream_in_a_serialised_request_is_the_stream_serialised(size):
    request = IntakeHandoffRequest(datasource_id="source", account_id="acme", priority=7, doc_stored_in_repo=True)
    request.stream.document.search_metadata.body = "x" * size
    for number in range(20):
        request.stream.document.search_metadata.tags.tag_data[f"tag-{number}"] = "value"

    data = request.SerializeToString(deterministic=True)

    assert _stream_value(data) == request.stream.SerializeToString(deterministic=True)
