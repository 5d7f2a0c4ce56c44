"""A Kafka that asks for TLS and a password: everything the product does there, and what it says when it may not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pipestream.documents.repository import Repository
from pipestream.errors import BrokerRefused, BrokerUnavailable, SettingsInvalid
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import start_producer
from pipestream.kafka.records import OffsetRange, OutputRecord
from pipestream.kafka.writer import Progress, TransactionalWriter
from pipestream.offsets.range_reader import RangeReader
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream.wire import PipeDoc
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.secured_kafka import PASSWORD, secured_kafka
from pipestream_testing.settings_file import write_settings

pytestmark = pytest.mark.stack

# The longest that a client is given to hear that it is refused. On a busy machine that takes a while.
LOGIN_S = 5.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with secured_kafka(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def secured_settings(settings, secured):
    return _aim(settings, secured)


def _aim(settings, secured, **options):
    """Settings for the secured broker; an option of None is left out."""
    chosen = {name: value for name, value in {**secured.options, **options}.items() if value is not None}
    plain = {name: value for name, value in settings if name not in ("kafka_bootstrap", "kafka_options")}
    return Settings(**plain, kafka_bootstrap=secured.address, kafka_options=chosen)


@pytest.fixture
def topic(secured_settings, unique):
    TopicAdmin(secured_settings).create([TopicSpec(unique, 1, None, Purpose.NODE)])
    return unique


def test_a_document_is_published_and_drained(secured_settings, pipeline, unique):
    there = Pipeline(secured_settings, pipeline.graph_file)
    there.create_topics()
    intake = f"intake.{unique}"
    document = PipeDoc(doc_id="a")
    document.search_metadata.title = "a"
    with Repository(secured_settings) as repository:
        repository.upload(document, there.graph.datasources[0])

    report = there.drain(intake, "run-1")

    assert (report.status, report.records) == ("drained", 1)
    assert there.doc_ids(f"pipestream.{unique}.second") == {"a": 1}
    there.check_ledger_tiles(intake)


def test_a_range_is_read_and_a_transaction_committed(secured_settings, topic):
    broker = Broker(secured_settings)
    broker.write(topic, b"key", b"value")

    with (
        RangeReader(secured_settings, "pipestream.reader", [OffsetRange(topic, 0, 0, 1)]) as reader,
        TransactionalWriter(secured_settings, [f"pipestream.{topic}"], topic) as writer,
    ):
        (chunk, ends), *_ = reader.chunks({}, 10)
        writer.commit(
            [OutputRecord(topic, b"key", b"again")], [Progress(0, ends[topic, 0], "metadata")], reader.group_metadata()
        )

    assert [record.value for record in chunk] == [b"value"]
    assert broker.committed("pipestream.reader", topic, [0])[0].offset == 1
    # The record, the copy and the transaction's marker.
    assert broker.settled_watermarks(topic, [0])[0].high == 3


WRONG_PASSWORD = {"sasl.password": "wr0ng-word"}


def _list_topics(settings, _name):
    Broker(settings).existing()


def _read_offsets(settings, name):
    Broker(settings).committed("pipestream.group", name, [0])


def _start_producer(settings, name):
    start_producer(settings, f"pipestream.{name}", name)


@pytest.mark.parametrize(
    ("options", "ask", "reason"),
    [
        pytest.param(WRONG_PASSWORD, _list_topics, "Authentication failed", id="a wrong password, for topics"),
        pytest.param(WRONG_PASSWORD, _read_offsets, "Authentication failed", id="a wrong password, for offsets"),
        pytest.param(WRONG_PASSWORD, _start_producer, "Authentication failed", id="a wrong password, to write"),
        pytest.param(
            {"sasl.mechanism": "SCRAM-SHA-512"}, _list_topics, "supported mechanisms: PLAIN", id="another mechanism"
        ),
        pytest.param({"ssl.ca.location": None}, _list_topics, "certificate verify failed", id="an unknown authority"),
    ],
)
def test_who_is_not_let_in_is_told_why_and_need_not_try_again(settings, secured, unique, options, ask, reason):
    stranger = _aim(settings, secured, **options).model_copy(update={"kafka_timeout_s": LOGIN_S})

    with pytest.raises(BrokerRefused) as caught:
        ask(stranger, unique)

    assert f"Kafka at {secured.address}: refused:" in str(caught.value)
    assert reason in str(caught.value)
    assert "check kafka_options" in str(caught.value)
    assert "wr0ng" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_client_without_tls_does_not_get_an_answer(settings, secured):
    plain = settings.model_copy(update={"kafka_bootstrap": secured.address, "kafka_timeout_s": 2.0})

    with pytest.raises(BrokerUnavailable, match=secured.address):
        Broker(plain).existing()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location"),
        ({"sasl.mechanism": "TELEPATHY"}, "TELEPATHY"),
        ({"ssl.endpoint.identification.algorithm": "maybe"}, "ssl.endpoint.identification.algorithm"),
    ],
)
def test_a_value_that_the_client_cannot_use_is_a_setting_to_fix(settings, secured, options, reason):
    with pytest.raises(SettingsInvalid) as caught:
        Broker(_aim(settings, secured, **options))

    assert str(caught.value).startswith("kafka_options: ")
    assert reason in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_the_command_line_says_that_the_password_is_wrong_without_it(settings, secured, tmp_path):
    file = tmp_path / "secured.toml"
    write_settings(file, _aim(settings, secured, **WRONG_PASSWORD))
    environment = {**os.environ, "PIPESTREAM_CONFIG": str(file), "PIPESTREAM_KAFKA_TIMEOUT_S": str(LOGIN_S)}
    run = [sys.executable, "-m", "pipestream.cli.main"]

    shown = subprocess.run([*run, "settings", "--json"], env=environment, capture_output=True, text=True, check=True)
    refused = subprocess.run([*run, "-v", "topics"], env=environment, capture_output=True, text=True, check=False)

    (options,) = [row for row in json.loads(shown.stdout)["settings"] if row["name"] == "kafka_options"]
    assert "sasl.password = ••••" in options["value"]
    assert refused.returncode == 2
    assert "Authentication failed" in refused.stderr
    assert "wr0ng" not in shown.stdout + shown.stderr + refused.stdout + refused.stderr
