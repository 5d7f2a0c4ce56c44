"""What an earlier version wrote to PostgreSQL is read, and written on, by this one."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from pipestream.deployment.versions import GraphVersions
from pipestream.documents.catalogue import Catalogue
from pipestream.graph.proto import graph_hash
from pipestream.leases import TopicMode, open_lease_store

FOLDER = Path(__file__).resolve().parents[1] / "data" / "earlier_state"
TOPIC = "intake.sample-files"

pytestmark = pytest.mark.stack


@pytest.fixture
def earlier(settings):
    """Settings of a database with the tables and rows of the earlier version."""
    with psycopg.connect(settings.postgres_dsn.get_secret_value(), autocommit=True) as connection:
        connection.execute((FOLDER / "state.sql").read_text())
    return settings


def test_versions_of_graphs_are_read_and_the_same_graph_makes_no_new_one(earlier):
    known = json.loads((FOLDER / "state.json").read_text())["graph"]["hash"]

    with closing(GraphVersions(earlier)) as versions:
        graph = versions.active("sample")
        assert graph is not None
        assert graph_hash(graph) == known
        assert versions.get("sample", known) == graph
        assert versions.leftovers("sample") == ["pipestream.main.gone"]
        assert versions.save(graph, applied_by="me").version == 1


def test_a_graph_of_an_earlier_version_is_deleted(earlier):
    with closing(GraphVersions(earlier)) as versions:
        versions.delete("sample", deleted_by="me")

        assert versions.active("sample") is None
        assert [each.version for each in versions.history("sample")] == [1]


def test_a_document_of_the_catalogue_is_still_to_be_published(earlier):
    with Catalogue(earlier) as catalogue:
        document = catalogue.find("demo", "sample-files", "doc-1")

    assert document is not None
    assert document.published_at is None
    assert (document.doc_id, document.version, document.title) == ("doc-1", 2, "A title")


def test_what_the_operator_wanted_still_holds_and_fencing_tokens_keep_growing(earlier):
    with closing(open_lease_store(earlier)) as store:
        assert not store.desired(TOPIC).started
        assert store.desired(TOPIC).replicas == 3
        assert store.desired(TOPIC).mode is TopicMode.BATCH
        assert store.acquire(TOPIC, 0, "run-2", 20.0).token > 7
