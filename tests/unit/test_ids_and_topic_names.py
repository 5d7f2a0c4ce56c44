from __future__ import annotations

import uuid

import pytest

from pipestream import topic_names as names
from pipestream.errors import IdInvalid
from pipestream.ids import (
    check_graph_id,
    check_key_part,
    derive_child_id,
    derive_stream_id,
    record_origin,
    stream_ids_of,
)


@pytest.mark.parametrize("value", ["a", "parse-html", "node_1", "0", "x" * 80])
def test_an_id_made_of_small_letters_digits_and_dashes_is_accepted(value):
    assert check_graph_id(value, "node id") == value


@pytest.mark.parametrize("value", ["", "-a", "A", "a.b", "a/b", "a b", "ä", "a\n", "x" * 81, "..", "a\x00"])
def test_an_id_that_could_not_be_part_of_a_topic_is_refused_by_name(value):
    with pytest.raises(IdInvalid, match="node id"):
        check_graph_id(value, "node id")


@pytest.mark.parametrize("value", ["..", ".", ".hidden", "", "a/b", "a\\b", "a\n", "x" * 201, "ä", "a\x00b"])
def test_a_key_part_that_could_climb_or_confuse_is_refused(value):
    with pytest.raises(IdInvalid, match="document id"):
        check_key_part(value, "document id")


@pytest.mark.parametrize(
    "topic",
    [
        names.intake_topic("files"),
        names.node_topic("main", "parse"),
        names.bridge_topic("east", "parse"),
        names.dead_letter_topic("main", "parse"),
        names.intake_dead_letter_topic("files"),
    ],
)
def test_a_topic_name_taken_apart_gives_the_same_name(topic):
    assert str(names.parse_topic(topic)) == topic


@pytest.mark.parametrize("topic", ["", "intake", "intake.a.b", "pipestream.a", "other.a.b", "intake.A", "dlq.a.b.c"])
def test_a_name_outside_the_convention_is_refused(topic):
    with pytest.raises(IdInvalid):
        names.parse_topic(topic)


def test_an_intake_topic_names_its_datasource_and_no_other_topic_does():
    assert names.datasource_of(names.intake_topic("files")) == "files"
    assert names.is_intake(names.intake_topic("files"))
    for topic in (names.node_topic("main", "intake"), names.intake_dead_letter_topic("files"), "intake", "intakes.a"):
        assert names.datasource_of(topic) == ""
        assert not names.is_intake(topic)


def test_derived_ids_are_stable_and_differ_in_every_part():
    base = ("g", "id-1", "intake.a", 0, 5)
    others = [
        ("g@b", "id-1", "intake.a", 0, 5),
        ("g", "id-2", "intake.a", 0, 5),
        ("g", "id-1", "intake.b", 0, 5),
        ("g", "id-1", "intake.a", 1, 5),
        ("g", "id-1", "intake.a", 0, 6),
    ]

    made = {derive_stream_id(lane, record_origin(*place)) for lane, *place in [base, *others]}

    assert len(made) == 6
    # What is stored has names made of these, so they stay what they are.
    assert derive_stream_id("g", record_origin(*base[1:])) == "f97de3b6-83e0-595a-adb9-93618332c1ac"
    assert derive_child_id("s", "n", "document/1") != derive_child_id("s", "n", "document/2")


@pytest.mark.parametrize("origin", ["topic-id/intake.web/0/17", "engine/intake/web/Schlüssel", ""])
def test_a_derived_id_is_the_uuid5_of_its_origin(origin):
    """Objects and accepted keys of earlier versions have these names."""
    namespace = uuid.UUID("6f0d3f6e-6ad9-5a35-9f3c-4f9f2e0f7b51")
    assert derive_stream_id("web", origin) == str(uuid.uuid5(namespace, f"web/{origin}"))
    assert derive_child_id("parent", "node", origin) == str(uuid.uuid5(namespace, f"parent/node/{origin}"))


@pytest.mark.parametrize("offset", [0, 7, 10, 2**63 - 1])
def test_the_ids_of_a_partitions_streams_are_derived_from_their_records(offset):
    origin = record_origin("topic-id", "intake.web", 10, offset)
    assert stream_ids_of("web", "topic-id", "intake.web", 10)(offset) == derive_stream_id("web", origin)
