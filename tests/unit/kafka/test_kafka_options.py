from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipestream import kafka_options
from pipestream.errors import SettingsInvalid
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import idempotent_producer, range_consumer, transactional_producer
from pipestream.kafka.connection import client_config
from pipestream.settings import Settings


@pytest.mark.parametrize("name", sorted({*kafka_options._ALLOWED, *kafka_options.DECIDED}))
def test_every_option_that_is_spoken_of_is_one_of_the_client(name):
    complaint = ""
    try:
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, name: "1"})
    except KafkaException as error:
        complaint = error.args[0].str()

    assert "No such configuration property" not in complaint


def test_no_option_that_can_be_set_is_one_that_a_client_of_ours_sets(monkeypatch):
    ours = set(client_config(Settings()))

    def remember(_kind, _settings, options):
        ours.update(options)

    monkeypatch.setattr("pipestream.kafka.clients._open", remember)
    range_consumer(Settings(), "group")
    idempotent_producer(Settings())
    transactional_producer(Settings(), "id")

    assert {"group.id", "enable.idempotence", "transactional.id"} <= ours
    assert ours & kafka_options._ALLOWED == set()


def test_a_value_that_only_the_client_can_judge_is_refused_by_its_name():
    with pytest.raises(SettingsInvalid, match=r"kafka_options: .*broker\.address\.family"):
        Broker(Settings(kafka_options={"broker.address.family": "v5", "sasl.password": "hunter2"}))
