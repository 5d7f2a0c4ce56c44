"""Runs that start when documents wait: when the trigger rings, and what it sees on a real broker."""

from __future__ import annotations

import asyncio

import pytest
from airflow.sdk import Asset

from pipestream.errors import LeaseStoreUnavailable
from pipestream.graph.flow import fed_topics
from pipestream.graph.load import load_graph
from pipestream.settings import load_settings
from pipestream.views.standing import TopicStanding
from pipestream_airflow import lag_trigger
from pipestream_airflow.assets import arrival_asset, datasource_asset, find_updated, topic_asset, written_assets
from pipestream_airflow.dag_factory import build_ingest_dag
from pipestream_airflow.graph_dag import build_graph_dag
from pipestream_airflow.lag_trigger import Bell, LagTrigger


def standing(lag: int, age_s: float = 0, drained_to: int = 0, held_slots: int = 0, **more: bool) -> TopicStanding:
    state = {"is_started": True, "is_streaming": False, **more}
    return TopicStanding(
        "sample", "intake.a", lag, drained_to=drained_to, oldest_age_s=age_s, held_slots=held_slots, replicas=1, **state
    )


def bell() -> Bell:
    return Bell(records=100, oldest_s=60, repeat_s=300)


def test_it_rings_when_enough_waits_in_all_topics_together():
    assert bell().look([standing(60), standing(39)], 0) == ""
    assert bell().look([standing(60), standing(40)], 0) == "100 records wait, 100 start a run"


def test_it_rings_when_one_record_has_waited_long_enough():
    assert bell().look([standing(1, age_s=59)], 0) == ""
    assert "has waited 60 s" in bell().look([standing(1, age_s=60), standing(0)], 0)


def test_it_rings_once_while_nothing_is_drained_and_again_in_case_the_event_was_lost():
    one = bell()

    assert [bool(one.look([standing(500)], now)) for now in (0, 10, 299, 300, 310)] == [True, False, False, True, False]


def test_it_does_not_ring_again_while_a_run_that_has_recorded_nothing_yet_is_at_work():
    one = bell()
    assert one.look([standing(500)], 0)

    assert not one.look([standing(500, held_slots=1)], 300)
    assert one.look([standing(500)], 301), "it ended without progress"


def test_it_does_not_ring_for_what_a_run_has_drained_into_its_next_topic():
    one = bell()
    assert one.look([standing(500), standing(0)], 0)

    assert not one.look([standing(0, drained_to=500), standing(500)], 10)
    assert not one.look([standing(0, drained_to=500), standing(500)], 20), "the next drain has not started yet"
    assert not one.look([standing(0, drained_to=500), standing(500, held_slots=1)], 60)


def test_it_rings_soon_when_a_run_made_progress_and_left_enough():
    one = bell()
    assert one.look([standing(500, drained_to=0)], 0)

    assert not one.look([standing(900, drained_to=400)], 10), "more came than was drained; the run may be at work"
    assert one.look([standing(900, drained_to=400)], 40)
    assert not one.look([standing(900, drained_to=400)], 80)


def test_it_rings_anew_after_less_than_enough_waited():
    one = bell()
    assert one.look([standing(500)], 0)
    assert not one.look([standing(0)], 10)

    assert one.look([standing(100)], 20)


@pytest.mark.parametrize("state", [{"is_started": False}, {"is_streaming": True}])
def test_topics_that_batch_runs_leave_alone_do_not_count(state):
    assert bell().look([standing(500, age_s=500, **state)], 0) == ""


def test_triggers_of_one_installation_share_a_poll():
    one, other = (LagTrigger(graph_id=name, topics=[name], records=1, oldest_s=1) for name in "ab")

    assert one.shared_stream_key() == other.shared_stream_key()


def test_the_trigger_of_a_graph_asks_the_consul_of_the_connection(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_CONN_LEASES_AT", '{"conn_type": "consul", "host": "consul.example", "port": 8501}')
    monkeypatch.setenv("PIPESTREAM_LEASES", "consul")
    file = tmp_path / "a.yaml"
    file.write_text(
        "graph: a\ncluster: c\ndatasources: [{id: a, account: x, entry: n}]\nnodes: [{id: n, type: connector}]\n"
    )
    (watcher,) = arrival_asset(load_graph(file), load_settings(consul_conn_id="leases_at")).watchers
    opened = []

    def open_store(settings):
        opened.append(settings.consul_address)
        raise LeaseStoreUnavailable(settings.consul_address)

    monkeypatch.setattr(lag_trigger, "open_lease_store", open_store)

    with pytest.raises(LeaseStoreUnavailable):
        asyncio.run(anext(watcher.trigger.open_shared_stream(watcher.trigger.serialize()[1])))
    assert opened == ["consul.example:8501"]
    assert "leases_at" in watcher.trigger.shared_stream_key()


@pytest.mark.stack
def test_one_poll_rings_for_each_graph_whose_records_wait_and_consumes_nothing(pipeline, config_file, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))
    monkeypatch.setenv("PIPESTREAM_ARRIVAL_POLL_S", "0.2")
    name = pipeline.graph.graph_id
    waiting = LagTrigger(graph_id=name, topics=[f"intake.{name}"], records=3, oldest_s=3600)
    idle = LagTrigger(graph_id=name, topics=[f"pipestream.{name}.second"], records=1, oldest_s=1)
    events: list[tuple[str, object]] = []

    async def watch() -> None:
        snapshots: list[asyncio.Queue[object]] = []

        async def follow(label: str, trigger: LagTrigger) -> None:
            queue: asyncio.Queue[object] = asyncio.Queue()
            snapshots.append(queue)

            async def stream():
                while True:
                    yield await queue.get()

            async for event in trigger.filter_shared_stream(stream()):
                events.append((label, event.payload))

        tasks = [asyncio.create_task(follow(*each)) for each in (("waiting", waiting), ("idle", idle))]
        await asyncio.sleep(0)
        async for snapshot in LagTrigger.open_shared_stream(waiting.serialize()[1]):
            for queue in snapshots:
                queue.put_nowait(snapshot)
            await asyncio.sleep(0)
            if events:
                break
            pipeline.send(f"intake.{name}", ["a", "b", "c"])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(watch(), 300))

    assert events == [("waiting", {"graph": name, "reason": "3 records wait, 3 start a run"})]
    assert pipeline.group_offsets(f"intake.{name}") == {}
    assert not LagTrigger._watched


@pytest.fixture
def arriving(pipeline, graph_text, unique):
    text = graph_text.replace("cluster:", "schedule: on_arrival\narrival: {records: 7, oldest_seconds: 9}\ncluster:")
    pipeline.graph_file.write_text(text.replace("entry: first", "entry: first\n    connector: {kind: folder, path: x}"))
    return type(pipeline)(pipeline.settings, pipeline.graph_file)


@pytest.mark.stack
def test_a_graph_on_arrival_waits_for_its_datasource_and_for_what_lags(arriving, unique):
    dag = build_graph_dag(arriving.graph, arriving.graph_file, arriving.settings)

    assets = {asset.name: asset for asset in dag.timetable.asset_condition.objects}
    assert set(assets) == {f"waiting.{unique}", f"intake.{unique}"}
    (watcher,) = assets[f"waiting.{unique}"].watchers
    assert (watcher.trigger.records, watcher.trigger.oldest_s) == (7, 9)
    ingest = build_ingest_dag(arriving.graph, arriving.graph.datasources[0], arriving.graph_file)
    assert ingest.task_dict["ingest"].outlets == [datasource_asset(unique)]
    assert dag.task_dict[f"drain_intake_{unique}"].inlets == [datasource_asset(unique)]


@pytest.mark.stack
def test_a_drain_updates_the_assets_of_the_topics_that_it_wrote_to(arriving, unique):
    graph, second = arriving.graph, f"pipestream.{unique}.second"
    (edge,) = (edge for edge in graph.edges if edge.to_node_id == "second")

    assets = written_assets(fed_topics(graph))[f"intake.{unique}"]

    assert topic_asset(second) in assets
    assert find_updated(assets, graph, {edge.edge_id: 2, "happy-end": 1}) == [topic_asset(second)]
    assert find_updated(assets, graph, {edge.edge_id: 0}) == []
    assert all(isinstance(asset, Asset) for asset in assets)
