"""Two writers, one head of the ledger, at the same moment: one of them moves it, the other learns that it did not."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from pipestream.errors import LedgerConflict
from pipestream.ledger import Ledger, ledger
from pipestream_testing.made import make_entry
from pipestream_testing.oracle import Verdict

pytestmark = pytest.mark.stack

RACES = 100
# A ledger's log is read at every race, so ten short ones take less time than a long one.
TABLES = 10


def entry(run_id, start):
    return make_entry(
        start, start + 1, topic="intake.race", run_id=run_id, plan_id=f"{run_id}-{start}", lane="lane", holder=run_id
    )


@pytest.fixture
def meet(monkeypatch):
    """Hold every writer between its look at the heads and its commit until the other one is there too."""
    barrier = threading.Barrier(2, timeout=120)
    append = ledger._append

    def append_together(*arguments):
        barrier.wait()
        append(*arguments)

    monkeypatch.setattr(ledger, "_append", append_together)


def race(ledgers, start):
    """Let each ledger enter the same range at once; return who did."""
    winners, surprises = [], []

    def write(name, own):
        try:
            with suppress(LedgerConflict):
                own.enter([entry(name, start)])
                winners.append(name)
        except Exception as error:
            surprises.append(error)

    threads = [threading.Thread(target=write, args=item) for item in ledgers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert surprises == []
    return winners


@pytest.mark.parametrize("place", ["disk", "S3"])
def test_of_two_writers_of_one_head_exactly_one_wins(settings, unique, tmp_path, rounds, meet, place):
    for table in range(TABLES):
        uri = f"s3://pipestream/{unique}/{table}" if place == "S3" else (tmp_path / f"{table}").as_uri()
        ledgers = {name: Ledger(settings.model_copy(update={"ledger_uri": uri})) for name in ("one", "other")}
        for start in range(RACES // TABLES):
            winners = race(ledgers, start)
            verdict = Verdict(lost=int(not winners), duplicated=max(0, len(winners) - 1))
            rounds.add(f"two writers of one head, on {place}", verdict)
        entries = ledgers["one"].entries(lane="lane")
        assert [found.range.start for found in entries] == list(range(RACES // TABLES))
