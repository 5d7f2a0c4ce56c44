"""The recorder: one commit for all streams, and a conflict of one of them keeps none of the others waiting."""

from __future__ import annotations

import pytest

from pipestream.errors import LeaseLost, LedgerBusy, LedgerConflict
from pipestream.settings import Settings
from pipestream.stream.recorder import Recorder


class Parts:
    """Parts of a topic with one entry to record, named after it."""

    def __init__(self, topic):
        self.topic = topic
        self.waiting = [topic]
        self.taken = []
        self.lost = None
        self.slot = self.lease = type("Slot", (), {"slot": 0})()
        self.slot.lease = self.lease

    def check_lease(self):
        if self.lost:
            raise self.lost

    def take(self):
        self.taken, self.waiting = self.waiting, []
        return self.taken

    def settle(self):
        self.taken = []

    def put_back(self):
        self.waiting, self.taken = self.taken + self.waiting, []


class FaultyLedger:
    """Keeps its commits, and refuses those with an entry of a refused topic."""

    def __init__(self):
        self.commits = []
        self.refused = ()
        self.error = None

    def enter(self, entries):
        if self.error:
            raise self.error
        if set(entries) & set(self.refused):
            raise LedgerConflict("another run was first")
        self.commits.append(list(entries))


@pytest.fixture
def ledger():
    return FaultyLedger()


@pytest.fixture
def recorder(ledger):
    return Recorder(Settings(), ledger)


@pytest.fixture
def streams(recorder):
    joined = [Parts(name) for name in ("a", "b", "c")]
    for parts in joined:
        parts.conflicts = []
        recorder.join(parts, lambda parts=parts: parts.conflicts.append(True))
    return joined


def test_all_streams_are_recorded_in_one_commit(recorder, ledger, streams):
    recorder.record()

    assert ledger.commits == [["a", "b", "c"]]
    assert not any(parts.taken or parts.waiting for parts in streams)


def test_nothing_new_makes_no_commit(recorder, ledger, streams):
    recorder.record()
    recorder.record()

    assert len(ledger.commits) == 1


def test_a_conflict_of_one_stream_does_not_keep_the_others_from_being_recorded(recorder, ledger, streams):
    ledger.refused = ["b"]

    recorder.record()

    assert ledger.commits == [["a"], ["c"]]
    assert [bool(parts.conflicts) for parts in streams] == [False, True, False]
    recorder.record()
    assert ledger.commits == [["a"], ["c"]], "it is not tried again: the stream starts over"
    with pytest.raises(LedgerConflict):
        recorder.leave(streams[1])


@pytest.mark.parametrize("error", [LedgerBusy("for a test"), ValueError("of a library")], ids=["ours", "of others"])
def test_a_ledger_that_does_not_answer_gets_everything_the_next_time(recorder, ledger, streams, error):
    ledger.error = error
    recorder.record()
    ledger.error = None

    recorder.record()

    assert ledger.commits == [["a", "b", "c"]]


def test_a_stream_whose_lease_is_lost_is_left_to_the_next_holder(recorder, ledger, streams):
    streams[0].lost = LeaseLost("a", 0, "it ran out")

    recorder.record()

    assert ledger.commits == [["b", "c"]]
    assert streams[0].waiting == ["a"]


def test_a_stream_that_leaves_is_recorded_at_once_and_not_again(recorder, ledger, streams):
    recorder.leave(streams[2])
    recorder.record()

    assert ledger.commits == [["c"], ["a", "b"]]


@pytest.mark.parametrize("error", [LedgerBusy("for a test"), ValueError("of a library")], ids=["ours", "of others"])
def test_leaving_says_that_the_ledger_did_not_answer(recorder, ledger, streams, error):
    ledger.error = error

    with pytest.raises(type(error)):
        recorder.leave(streams[0])
    assert streams[0].waiting == ["a"], "the next holder recovers it"
