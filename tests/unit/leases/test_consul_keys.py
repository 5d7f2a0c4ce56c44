from __future__ import annotations

import pytest

from pipestream.errors import IdInvalid
from pipestream.leases import keys


def test_the_lease_of_a_graph_is_next_to_the_topics_registration():
    assert keys.slot_key("intake.files@sample", 0) == "pipestream/intake-topics/files@sample"
    assert keys.slot_key("intake.files@sample", 2) == "pipestream/intake-topics/files@sample/slots/2"
    assert keys.parse_slot_key("pipestream/intake-topics/files@sample/slots/2") == ("intake.files@sample", 2)
    assert keys.desired_key("intake.files") == "pipestream/desired/intake.files"


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("intake.files", "pipestream/intake-topics/files"),
        ("pipestream.main.parser", "pipestream/node-topics/main.parser"),
        ("bridge.east.parser", "pipestream/bridge-topics/east.parser"),
        ("dlq.main.parser", "pipestream/dlq-topics/main.parser"),
        ("dlq.intake.files", "pipestream/dlq-topics/intake.files"),
    ],
)
def test_slot_0_is_the_topics_own_key_and_further_slots_are_under_it(topic, key):
    assert keys.slot_key(topic, 0) == keys.name_key(topic) == key
    assert keys.slot_key(topic, 12) == f"{key}/slots/12"
    assert keys.parse_slot_key(key) == (topic, 0)
    assert keys.parse_slot_key(f"{key}/slots/12") == (topic, 12)


def test_a_renewal_is_written_next_to_the_slots_keys_and_is_not_a_slot_itself():
    key = keys.renewal_key("intake.files", 2)

    assert key == "pipestream/renewals/intake.files/2"
    assert key.startswith(keys.renewals_folder("intake.files"))
    assert not key.startswith(keys.renewals_folder("intake.file"))
    assert keys.parse_slot_key(key) is None


def test_the_desired_state_has_a_key_of_its_own():
    assert keys.desired_key("intake.files") == "pipestream/desired/intake.files"


@pytest.mark.parametrize(
    "key",
    [
        "pipestream/desired/intake.files",
        "pipestream/node-topics/main.parser/slots/0",
        "pipestream/node-topics/main.parser/slots/x",
        "pipestream/node-topics/main.parser/notes",
        "pipestream/node-topics/main.parser/slots/1/2",
        "pipestream/node-topics/no-cluster",
        "pipestream/node-topics/",
        "elsewhere/node-topics/main.parser",
    ],
)
def test_a_key_that_is_not_a_slot_is_nobodys(key):
    assert keys.parse_slot_key(key) is None


@pytest.mark.parametrize(
    "topic", ["or/ders", "intake.a/b", "pipestream.main", "intake...", "", "..", "__consumer_offsets"]
)
def test_a_name_that_cannot_be_a_topic_gets_no_key(topic):
    for make in (keys.name_key, keys.desired_key, keys.renewals_folder):
        with pytest.raises(IdInvalid):
            make(topic)
