"""A writer that a newer one has fenced, on real Kafka: wherever it notices, it says so."""

from __future__ import annotations

import time

import pytest

from pipestream.errors import ProducerFenced
from pipestream.kafka.records import OutputRecord
from pipestream.kafka.writer import TransactionalWriter
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec

pytestmark = pytest.mark.stack

_PAUSE_S = 0.01
_MOST = 6_000


class ComingSlowly(list[OutputRecord]):
    """Records that come one by one, so that the client hears of the first ones before the last ones are produced."""

    taken = 0

    def __iter__(self):
        for self.taken, each in enumerate(super().__iter__(), 1):
            yield each
            time.sleep(_PAUSE_S)


def test_a_fenced_writer_that_notices_while_it_produces_says_that_it_is_fenced(settings, unique):
    TopicAdmin(settings).create([TopicSpec(unique, 1, None, Purpose.NODE)])
    outputs = ComingSlowly([OutputRecord(unique, b"key", b"value")] * _MOST)
    with (
        TransactionalWriter(settings, [unique], unique) as old,
        TransactionalWriter(settings, [unique], unique),
        pytest.raises(ProducerFenced),
    ):
        old.commit(outputs)

    assert outputs.taken < _MOST, "it has noticed in the commit, which is another case"
