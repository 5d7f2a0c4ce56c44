"""Versions of graphs, in PostgreSQL."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest
from pydantic import SecretStr

from pipestream.deployment.active import ActiveGraphs
from pipestream.deployment.versions import GraphVersions, VersionConflict, VersionMissing
from pipestream.engine_server.graphs import LiveGraphs
from pipestream.errors import DatabaseUnavailable, DatasourceContested
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import graph_hash
from pipestream.objects.store import open_store as open_objects
from pipestream.repository_server.datasources import Datasources

pytestmark = pytest.mark.stack

FIRST = check_graph_text(b"graph: sample\ncluster: main\nnodes: [{id: a, type: connector}]\n", "g.yaml").require()
SECOND = replace(FIRST, description="changed")
THIRD = replace(FIRST, description="changed again")


@pytest.fixture
def open_store(settings):
    """Opens the same store again and again, as several processes would."""
    opened = []

    def open_one():
        opened.append(GraphVersions(settings))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def versions(open_store):
    return open_store()


def test_a_graph_that_was_never_applied_has_no_versions(versions):
    assert versions.graph_ids() == []
    assert versions.history("sample") == []
    assert versions.active("sample") is None
    assert versions.leftovers("sample") == []
    assert versions.latest_activation() == 0
    assert versions.active_versions() == {}
    assert versions.deletion("sample") is None


def test_reading_creates_no_tables(versions, settings):
    versions.active("sample")

    with psycopg.connect(settings.postgres_dsn.get_secret_value()) as connection:
        assert connection.execute("SELECT to_regclass('graph_versions')").fetchone() == (None,)


def test_the_last_saved_version_is_active_and_every_version_is_kept(versions, open_store):
    before = datetime.now(UTC)
    versions.save(FIRST, applied_by="ann")
    second = versions.save(SECOND, applied_by="bob")

    other = open_store()
    assert other.graph_ids() == ["sample"]
    assert other.active("sample") == SECOND
    assert [(v.version, v.applied_by, v.active) for v in other.history("sample")] == [
        (2, "bob", True),
        (1, "ann", False),
    ]
    assert other.get("sample", 1) == FIRST
    assert second.hash == graph_hash(SECOND)
    assert before <= second.applied_at <= datetime.now(UTC)


def test_saving_the_same_graph_makes_no_version(versions):
    first = versions.save(FIRST, applied_by="ann")

    assert versions.save(FIRST, applied_by="bob") == first
    assert len(versions.history("sample")) == 1


def test_saving_the_content_of_an_older_version_activates_that(versions):
    versions.save(FIRST, applied_by="ann")
    versions.save(SECOND, applied_by="ann")
    again = versions.save(FIRST, applied_by="bob")

    assert (again.version, again.applied_by, again.activated_by) == (1, "ann", "bob")
    assert versions.active("sample") == FIRST


def test_rollback_moves_the_active_version_and_says_who_did(versions):
    versions.save(FIRST, applied_by="ann")
    versions.save(SECOND, applied_by="ann")
    back = versions.rollback("sample", 1, applied_by="bob")

    assert versions.active("sample") == FIRST
    assert (back.version, back.active, back.activated_by) == (1, True, "bob")
    assert [v.active for v in versions.history("sample")] == [False, True]


def test_a_version_is_found_by_its_hash_or_the_start_of_it(versions):
    versions.save(FIRST, applied_by="ann")
    versions.save(SECOND, applied_by="ann")

    assert versions.get("sample", graph_hash(SECOND)) == SECOND
    assert versions.get("sample", graph_hash(FIRST)[:12]) == FIRST


@pytest.mark.parametrize("version", [3, 0, "", "zzzz", "' OR true --"])
def test_a_missing_version_is_named(versions, version):
    versions.save(FIRST, applied_by="ann")
    versions.save(SECOND, applied_by="ann")

    with pytest.raises(VersionMissing, match="graph sample has no version"):
        versions.get("sample", version)


def test_rolling_back_to_a_missing_version_changes_nothing(versions):
    versions.save(FIRST, applied_by="ann")

    with pytest.raises(VersionMissing, match="has no version 9"):
        versions.rollback("sample", 9, applied_by="bob")
    assert versions.active("sample") == FIRST


def test_a_deleted_graph_has_no_active_version_and_keeps_all_of_them(versions, open_store):
    versions.save(FIRST, applied_by="ann")
    versions.save(SECOND, applied_by="ann")
    versions.save(SERVED, applied_by="ann")
    before = versions.latest_activation()

    assert versions.delete("sample", deleted_by="bob", base_version=2) == 2

    other = open_store()
    assert (other.active("sample"), other.active("served")) == (None, SERVED)
    assert other.active_versions().keys() == {"served"}
    assert [(v.version, v.active) for v in other.history("sample")] == [(2, False), (1, False)]
    assert other.latest_activation() > before, "servers look again when this number grows"
    deletion = other.deletion("sample")
    assert deletion is not None
    assert deletion.deleted_by == "bob"
    assert other.deletion("served") is None


def test_a_deleted_graph_is_applied_again_as_one_that_has_no_version(versions):
    versions.save(FIRST, applied_by="ann")
    versions.delete("sample", deleted_by="bob")

    with pytest.raises(VersionConflict, match="no version is active now"):
        versions.save(SECOND, applied_by="ann", base_version=1)
    assert versions.save(SECOND, applied_by="ann", base_version=0).version == 2
    versions.delete("sample", deleted_by="bob")
    assert versions.rollback("sample", 2, applied_by="ann").active
    assert versions.deletion("sample") is None


def test_only_the_active_version_that_the_caller_saw_is_deleted(versions):
    versions.save(FIRST, applied_by="ann")
    versions.save(SECOND, applied_by="ann")

    with pytest.raises(VersionConflict, match="version 2 is active now"):
        versions.delete("sample", deleted_by="bob", base_version=1)
    assert versions.active("sample") == SECOND
    versions.delete("sample", deleted_by="bob")
    with pytest.raises(VersionMissing, match="that is active"):
        versions.delete("sample", deleted_by="bob")


def test_leftover_topics_are_remembered(versions, open_store):
    versions.note_leftovers("sample", ["b", "a"])
    versions.note_leftovers("other", ["c"])

    assert open_store().leftovers("sample") == ["a", "b"]
    versions.note_leftovers("sample", [])
    assert open_store().leftovers("sample") == []


def test_many_writers_at_once_make_versions_without_gaps(open_store):
    graphs = [replace(FIRST, description=f"number {number}") for number in range(12)]
    stores = [open_store() for _ in graphs]
    with ThreadPoolExecutor(len(graphs)) as pool:
        saved = list(pool.map(lambda pair: pair[0].save(pair[1], applied_by="ann"), zip(stores, graphs, strict=True)))

    assert sorted(each.version for each in saved) == list(range(1, 13))
    history = open_store().history("sample")
    assert [each.version for each in history] == list(range(12, 0, -1))
    assert sum(each.active for each in history) == 1


def test_graphs_do_not_share_versions(versions):
    versions.save(FIRST, applied_by="ann")
    other = versions.save(replace(THIRD, graph_id="other"), applied_by="ann")

    assert other.version == 1
    assert versions.graph_ids() == ["other", "sample"]


def test_a_database_that_does_not_answer_is_transient(settings):
    dsn = SecretStr("postgresql://someone:secret@127.0.0.1:1/nothing")
    versions = GraphVersions(settings.model_copy(update={"postgres_dsn": dsn}))

    with pytest.raises(DatabaseUnavailable) as caught:
        versions.active("sample")
    assert "secret" not in str(caught.value)


SERVED = check_graph_text(
    b"graph: served\ncluster: main\ndatasources: [{id: files, account: acme, entry: b}]\n"
    b"nodes: [{id: b, type: connector}]\n",
    "g.yaml",
).require()


def spoil(settings, graph_id, version=1):
    """Make a version of a graph what this release cannot read."""
    with psycopg.connect(settings.postgres_dsn.get_secret_value()) as connection:
        connection.execute(
            "UPDATE graph_versions SET content = %s WHERE (graph_id, version) = (%s, %s)",
            (b"\xff\xff", graph_id, version),
        )


def test_a_version_that_cannot_be_read_is_left_out_and_said_once(versions, settings, caplog):
    versions.save(FIRST, applied_by="ann")
    versions.save(SERVED, applied_by="ann")
    spoil(settings, "sample")
    active = ActiveGraphs(versions)

    assert [active.read().keys() for _ in range(3)] == [{"served"}] * 3
    assert active.unreadable == {"sample": 1}
    assert active.find("served") == SERVED
    assert [each.message.startswith("graph sample is left out") for each in caplog.records] == [True]


def test_an_engine_and_a_repository_start_beside_a_version_that_they_cannot_read(versions, settings):
    versions.save(FIRST, applied_by="ann")
    versions.save(SERVED, applied_by="ann")
    spoil(settings, "sample")

    async def serve(store):
        graphs = LiveGraphs(settings, "127.0.0.1:1", store)
        await graphs.start()
        await graphs.close()
        return list(graphs.directory.graphs)

    with open_objects(settings.store_uri, settings) as store:
        assert asyncio.run(serve(store)) == ["served"]
    with closing(Datasources(settings)) as datasources:
        assert datasources.find("files") == SERVED.datasources[0]
        assert not datasources.has_graph("sample")


def test_a_running_engine_and_repository_keep_the_version_before_one_that_they_cannot_read(versions, settings):
    versions.save(SERVED, applied_by="ann")

    async def serve(store):
        graphs = LiveGraphs(settings.model_copy(update={"engine_graph_poll_s": 3_600.0}), "127.0.0.1:1", store)
        await graphs.start()
        await asyncio.to_thread(versions.save, replace(SERVED, description="of a newer release"), applied_by="bob")
        await asyncio.to_thread(spoil, settings, "served", 2)
        await graphs._look()
        await graphs.close()
        return {graph_id: served.version for graph_id, served in graphs.directory.graphs.items()}

    with open_objects(settings.store_uri, settings) as store, closing(Datasources(settings)) as datasources:
        assert datasources.find("files") == SERVED.datasources[0]
        assert asyncio.run(serve(store)) == {"served": 1}
        datasources._read()
        assert datasources.find("files") == SERVED.datasources[0]


def test_an_engine_goes_on_looking_after_an_unexpected_error(versions, settings, monkeypatch):
    settings = settings.model_copy(update={"engine_graph_poll_s": 0.05})

    async def serve(store):
        graphs = LiveGraphs(settings, "127.0.0.1:1", store)
        await graphs.start()
        with monkeypatch.context() as broken:
            broken.setattr(GraphVersions, "latest_activation", lambda _: 1 // 0)
            while not graphs.last_error:
                await asyncio.sleep(0.01)
        versions.save(SERVED, applied_by="ann")
        while "served" not in graphs.directory.graphs:
            await asyncio.sleep(0.01)
        await graphs.close()
        return graphs.last_error

    with open_objects(settings.store_uri, settings) as store:
        assert asyncio.run(asyncio.wait_for(serve(store), 60)) == ""


def test_a_repository_takes_nothing_for_a_datasource_that_two_accounts_have(versions, settings):
    theirs = replace(SERVED.datasources[0], account_id="theirs")
    versions.save(SERVED, applied_by="ann")
    versions.save(replace(SERVED, graph_id="other", datasources=(theirs,)), applied_by="bob")

    with closing(Datasources(settings)) as datasources:
        with pytest.raises(
            DatasourceContested, match="of account theirs in graph other, of account acme in graph served"
        ):
            datasources.find("files")
        assert datasources.all() == []
