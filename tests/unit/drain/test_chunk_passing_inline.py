"""Records that are passed on as they are, next to others in their chunk."""

from __future__ import annotations

import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream.drain.chunk import chunk_processor
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.services import open_services
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.wire import PipeStream
from pipestream_testing.made import make_task

GRAPH = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a, persistence: {persist_pipedoc: false, max_inline_size_bytes: 1000}}]
    nodes:
      - {id: a, type: connector}
      - {id: b, type: connector}
      - {id: c, type: connector}
    edges:
      - {from: a, to: b, when: 'doc.doc_id != "nowhere"'}
      - {from: a, to: c, when: 'doc.doc_id == "both"'}
"""


def record(offset, doc_id, *headers, **fields):
    value = PipeStream(document={"doc_id": doc_id}, **fields).SerializeToString()
    return InputRecord("intake.s", 0, offset, 0, doc_id.encode(), value, headers)


@pytest.fixture
def open_processor(tmp_path):
    graph = check_graph_text(textwrap.dedent(GRAPH).encode(), "g.yaml").require()
    store_uri = (tmp_path / "store").as_uri()
    with (
        open_store(store_uri, Settings()) as store,
        open_services(built(graph), Settings(), ["a"], store) as services,
        ThreadPoolExecutor(2) as pool,
    ):

        def open_it(*, side_by_side=False, **changes):
            task = make_task("intake.s", "a", datasource_id="s", lane="g", topic_id="topic-id", **changes)
            wide = (pool, 2) if side_by_side else ()
            return chunk_processor(task, graph, services, store, Settings(), *wide)

        yield open_it


def keys_by_offset(result):
    return [(each.record.offset, [(output.topic, output.key) for output in each.outputs]) for each in result]


TO_B, TO_C = "pipestream.main.b", "pipestream.main.c"


def test_results_are_in_the_order_of_the_records_however_each_was_processed(open_processor):
    records = [
        record(0, "one"),
        record(1, "both"),
        record(2, "nowhere"),
        record(3, "traced", (TRACEPARENT, b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
        record(4, "elsewhere", (FOR_GRAPH, b"another")),
        record(5, "refused", metadata={"account_id": "other"}),
        record(6, "last"),
    ]
    processor = open_processor()
    hydrated = processor.hydrate(records)

    result = processor.carry(hydrated)

    assert [each.record.offset for each in hydrated.passed] == [0, 6]
    assert keys_by_offset(result) == [
        (0, [(TO_B, b"one")]),
        (1, [(TO_B, b"both"), (TO_C, b"both")]),
        (2, [("pipestream.main.happy-end", b"nowhere")]),
        (3, [(TO_B, b"traced")]),
        (4, []),
        (5, [("dlq.intake.s", b"refused")]),
        (6, [(TO_B, b"last")]),
    ]
    assert result.tally(0).dead_letters == 1


def test_a_chunk_of_plain_records_is_passed_on_when_it_is_hydrated(open_processor):
    records = [record(offset, f"d{offset}") for offset in range(3)]
    processor = open_processor()
    hydrated = processor.hydrate(records)

    result = processor.carry(hydrated)

    assert len(hydrated.passed) == 3
    assert hydrated.passed_bytes == result.size_bytes
    assert keys_by_offset(result) == [(offset, [(TO_B, b"d%d" % offset)]) for offset in range(3)]


@pytest.mark.parametrize("changes", [{"side_by_side": True}, {"doc_ids": ("d1",)}], ids=["side by side", "some only"])
def test_a_task_with_more_to_do_takes_every_record_in(open_processor, changes):
    records = [record(offset, f"d{offset}") for offset in range(3)]
    processor = open_processor(**changes)
    hydrated = processor.hydrate(records)

    result = processor.carry(hydrated)

    assert not hydrated.passed
    wanted = [1] if "doc_ids" in changes else [0, 1, 2]
    assert [offset for offset, outputs in keys_by_offset(result) if outputs] == wanted
