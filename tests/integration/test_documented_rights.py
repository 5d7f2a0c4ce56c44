"""The rights in Kafka that docs/production.md names are enough for ingestion, drains and upkeep."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from pipestream.deployment.versions import GraphVersions
from pipestream.documents.repository import Repository
from pipestream.drain.range_task import RangeFailed
from pipestream.errors import BrokerRefused
from pipestream.retention.expire import expire_documents
from pipestream.settings import Settings
from pipestream.wire import PipeDoc
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.secured_kafka import LIMITED_USER, secured_kafka
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "production.md").read_text()
KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional": ResourceType.TRANSACTIONAL_ID}
OPERATIONS = {"Read": AclOperation.READ, "Write": AclOperation.WRITE, "Describe": AclOperation.DESCRIBE}
OPERATIONS |= {"DescribeConfigs": AclOperation.DESCRIBE_CONFIGS, "Create": AclOperation.CREATE}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with secured_kafka(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


def documented_rights(who: str, cluster: str) -> list[tuple[str, str, str]]:
    """The rows of the page's table for somebody: kind, prefix of the name, operation."""
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not cells[0].startswith(who):
            continue
        kind = cells[1].partition(" ")[0].rstrip("s")
        for name in re.findall(r"`([^`]+)`", cells[1]):
            found += [(kind, name.replace("CLUSTER", cluster), each) for each in re.findall(r"\w+", cells[2])]
    return found


def grant(secured, rights: list[tuple[str, str, str]]) -> None:
    admin = AdminClient({"bootstrap.servers": secured.address, **secured.options})
    bindings = [
        AclBinding(
            KINDS[kind],
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{LIMITED_USER}",
            "*",
            OPERATIONS[operation],
            AclPermissionType.ALLOW,
        )
        for kind, prefix, operation in dict.fromkeys(rights)
    ]
    for future in admin.create_acls(bindings).values():
        future.result(60)
    # The controller has them now; the broker, which decides, follows a moment later.
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    wait_until(lambda: set(bindings) <= set(admin.describe_acls(anything).result(60)))


def pipeline_of(settings, secured, file: Path, **options: str) -> Pipeline:
    plain = {name: value for name, value in settings if name not in ("kafka_bootstrap", "kafka_options")}
    chosen = {**secured.options, **options}
    return Pipeline(Settings(**plain, kafka_bootstrap=secured.address, kafka_options=chosen), file)


@pytest.fixture
def limited(settings, secured, unique, graph_text, tmp_path):
    """A pipeline whose topics are made, in the hands of somebody who may do nothing yet."""
    file = tmp_path / "graph.yaml"
    file.write_text(graph_text)
    pipeline_of(settings, secured, file).create_topics()
    return pipeline_of(settings, secured, file, **{"sasl.username": LIMITED_USER})


def test_with_the_rights_of_ingestion_and_drains_documents_go_in_and_through(limited, secured, unique):
    grant(secured, documented_rights("drains", unique) + documented_rights("ingestion", unique))

    limited.send(f"intake.{unique}", ["a", "bad"])
    with Repository(limited.settings) as repository:
        repository.upload(PipeDoc(doc_id="uploaded"), limited.graph.datasources[0])
    first = limited.drain(f"intake.{unique}", "run-1")
    second = limited.drain(f"pipestream.{unique}.second", "run-2")

    assert (first.records, second.records, second.dead_letters) == (3, 3, 1)


def test_a_right_that_is_missing_ends_a_run_at_once(limited, secured, unique):
    rights = documented_rights("drains", unique) + documented_rights("ingestion", unique)
    grant(secured, [right for right in rights if right[0] != "transactional"])
    limited.send(f"intake.{unique}", ["a"])

    with pytest.raises(RangeFailed, match=r"refused: .*Transactional Id authorization failed") as refused:
        limited.drain(f"intake.{unique}", "run-1")

    assert not refused.value.transient


@pytest.fixture
def expiring(settings, secured, limited, unique):
    """The same, and applied, with documents that expire, and dead letters in a topic that the graph names."""
    text = limited.graph_file.read_text()
    said = f"    keep_documents_hours: 1\n    dead_letters: {{topic: letters-{unique}}}\n"
    limited.graph_file.write_text(text.replace("  - id: second\n", f"  - id: second\n{said}"))
    everybody = pipeline_of(settings, secured, limited.graph_file)
    everybody.create_topics()
    with closing(GraphVersions(settings)) as versions:
        versions.save(everybody.graph, applied_by="test")
    return limited.settings


def test_with_the_rights_of_upkeep_documents_expire(expiring, secured, unique):
    named = [("topic", f"letters-{unique}", each) for _, _, each in documented_rights("upkeep", unique)]
    grant(secured, documented_rights("upkeep", unique) + named)

    assert expire_documents(expiring, datetime.now(UTC)).deleted == 0


def test_documents_do_not_expire_where_a_topic_that_may_refer_to_them_is_hidden(expiring, secured, unique):
    grant(secured, documented_rights("upkeep", unique))

    with pytest.raises(BrokerRefused, match=f"letters-{unique}"):
        expire_documents(expiring, datetime.now(UTC))
