from __future__ import annotations

import re
import threading
import time
from itertools import pairwise

import pytest

from pipestream.errors import DatabaseUnavailable, LeaseLost
from pipestream.leases.keeper import LeaseKeeper, elapsed_s
from pipestream_testing.leases import FlakyLeaseStore

TOPIC = "intake.files"
# The keeper's thread pauses in real time, a third of this; what counts as lost goes by the test's own clock.
BRISK_TTL_S = 0.06
# So long that the thread never wakes up in a test: it stands for a process that was stopped.
ASLEEP_TTL_S = 3_000.0
# Where pauses are skipped, any will do.
TTL_S = 30.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class SkippedPauses(threading.Event):
    """Stands in for the event a keeper pauses on: notes each pause, and is through it at once, by the test's clock."""

    def __init__(self, clock: Clock, count: int) -> None:
        super().__init__()
        self.pauses_s: list[float] = []
        self._clock = clock
        self._count = count

    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set() or len(self.pauses_s) == self._count:
            return True
        self.pauses_s.append(timeout)
        self._clock.now_s += timeout
        return False


class TimedLeaseStore(FlakyLeaseStore):
    """Notes when each renewal was asked for, by the test's clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.renewed_at_s: list[float] = []
        self._clock = clock

    def renew(self, lease):
        self.renewed_at_s.append(self._clock.now_s)
        super().renew(lease)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return FlakyLeaseStore()


def keep(store, clock, ttl_s, **options):
    return LeaseKeeper(store, store.acquire(TOPIC, 0, "worker-a", ttl_s), clock=clock, **options)


def keep_through(store, clock, pauses):
    """Let a keeper live through some pauses, and return how long each was."""
    keeper = keep(store, clock, TTL_S)
    keeper._stop = skipped = SkippedPauses(clock, pauses)
    with keeper:
        keeper._thread.join(120)
    assert not keeper._thread.is_alive()
    return skipped.pauses_s, keeper


def holders(store):
    return [found.holder for found in store.assignments(TOPIC)]


def test_renews_at_once_and_then_again_and_again(store, clock):
    with keep(store, clock, BRISK_TTL_S) as keeper:
        assert store.renewals >= 1
        assert store.wait_for_renewals(4)
        keeper.check()

    assert not keeper.lost.is_set()


def test_renews_at_a_third_of_the_ttl_or_up_to_a_tenth_of_that_sooner(clock):
    store = TimedLeaseStore(clock)

    pauses_s, _ = keep_through(store, clock, 200)

    gaps_s = [later - earlier for earlier, later in pairwise(store.renewed_at_s)]
    assert gaps_s == pytest.approx(pauses_s)
    assert len(gaps_s) == 200
    assert min(gaps_s) >= TTL_S / 3 * 0.9 - 1e-6
    assert max(gaps_s) <= TTL_S / 3 + 1e-6


def test_holders_that_started_together_do_not_renew_in_step(store, clock):
    pauses_s, _ = keep_through(store, clock, 200)

    assert len(set(pauses_s)) > 100
    # Over the whole tenth, or many would still meet.
    assert max(pauses_s) - min(pauses_s) > TTL_S / 3 * 0.05


def test_a_renewal_that_failed_is_tried_again_well_before_the_next_would_be_due(store, clock):
    store.fail_renewals([None, DatabaseUnavailable("no server"), None])

    pauses_s, keeper = keep_through(store, clock, 3)

    due, sooner, due_again = pauses_s
    assert sooner <= TTL_S / 12
    assert min(due, due_again) >= TTL_S / 3 * 0.9
    assert not keeper.lost.is_set()


def test_a_holder_that_cannot_renew_gives_up_at_two_thirds_of_the_ttl_and_names_the_cause(store, clock, caplog):
    store.fail_renewals([None])
    store.renewal_error = DatabaseUnavailable("PostgreSQL does not answer: connection refused")

    pauses_s, keeper = keep_through(store, clock, 1_000)

    assert sum(pauses_s) == pytest.approx(TTL_S * 2 / 3)
    reason = "renewals have failed for 20.0 s: PostgreSQL does not answer: connection refused"
    with pytest.raises(LeaseLost, match=re.escape(f"{TOPIC} slot 0: the lease was lost ({reason})")):
        keeper.check()
    assert reason in caplog.text


def test_leaving_releases_the_lease_and_ends_the_thread(store, clock):
    with keep(store, clock, ASLEEP_TTL_S) as keeper:
        assert holders(store) == ["worker-a"]

    assert holders(store) == [""]
    assert f"lease {TOPIC}/0" not in [thread.name for thread in threading.enumerate()]
    assert store.releases == [keeper.lease]


def test_releases_when_the_body_raises_and_lets_its_error_through(store, clock):
    with pytest.raises(KeyError, match="of the body"), keep(store, clock, ASLEEP_TTL_S):
        raise KeyError("of the body")

    assert holders(store) == [""]


def test_a_release_that_fails_does_not_hide_the_error_of_the_body(store, clock, caplog):
    store.release_error = DatabaseUnavailable("no server")

    with pytest.raises(KeyError, match="of the body"), keep(store, clock, ASLEEP_TTL_S):
        raise KeyError("of the body")

    assert "not released, so it stays leased for up to 3000 s: no server" in caplog.text


def test_a_release_that_fails_after_good_work_is_a_warning_only(store, clock, caplog):
    store.release_error = DatabaseUnavailable("no server")

    with keep(store, clock, ASLEEP_TTL_S):
        pass

    assert "not released" in caplog.text


def test_does_not_start_on_a_lease_that_is_lost_already(store, clock):
    keeper = keep(store, clock, ASLEEP_TTL_S)
    stolen = store.steal(TOPIC, 0, "worker-b")

    with pytest.raises(LeaseLost), keeper:
        pytest.fail("the body must not run")

    assert holders(store) == [stolen.holder]


def test_releases_when_the_first_renewal_fails(store, clock):
    store.renewal_error = DatabaseUnavailable("no server")

    with pytest.raises(DatabaseUnavailable), keep(store, clock, ASLEEP_TTL_S):
        pytest.fail("the body must not run")

    assert holders(store) == [""]


def test_a_lease_taken_by_another_is_noticed_by_the_next_renewal(store, clock):
    told = []
    with keep(store, clock, BRISK_TTL_S, on_lost=told.append) as keeper:
        store.steal(TOPIC, 0, "worker-b")

        assert keeper.lost.wait(120)
        for _ in range(2):
            with pytest.raises(LeaseLost, match=rf"{TOPIC} slot 0: the lease was lost \(someone else holds it now\)"):
                keeper.check()

    assert [error.reason for error in told] == ["someone else holds it now"]
    assert holders(store) == ["worker-b"]


def test_renewals_that_fail_for_less_than_two_thirds_of_the_ttl_are_tried_again(store, clock):
    with keep(store, clock, BRISK_TTL_S) as keeper:
        clock.now_s += BRISK_TTL_S * 0.5
        seen = store.renewals
        store.fail_renewals([DatabaseUnavailable("no server"), OSError()])
        # Two that fail, one that works, and the one after it, so that it has been noted.
        assert store.wait_for_renewals(seen + 4)
        # Beyond the TTL since entering, but not since the renewal that worked.
        clock.now_s += BRISK_TTL_S * 0.6

        keeper.check()


def test_renewals_that_fail_for_two_thirds_of_the_ttl_lose_the_lease(store, clock):
    with keep(store, clock, BRISK_TTL_S) as keeper:
        store.renewal_error = DatabaseUnavailable("no server")
        assert store.wait_for_renewals(store.renewals + 3)
        keeper.check()

        clock.now_s += BRISK_TTL_S * 2 / 3

        assert keeper.lost.wait(120)
        with pytest.raises(LeaseLost, match=r"renewals have failed for 0\.0 s: no server"):
            keeper.check()


def test_a_lost_lease_is_not_renewed_any_more(store, clock):
    with keep(store, clock, BRISK_TTL_S) as keeper:
        store.steal(TOPIC, 0, "worker-b")
        assert keeper.lost.wait(120)
        seen = store.renewals

        assert not store.wait_for_renewals(seen + 1, timeout_s=3 * BRISK_TTL_S)


def test_check_notices_a_stop_of_the_process_before_the_thread_has_run(store, clock):
    told = []
    with keep(store, clock, ASLEEP_TTL_S, on_lost=told.append) as keeper:
        clock.now_s += ASLEEP_TTL_S - 1
        keeper.check()

        clock.now_s += 1

        with pytest.raises(LeaseLost, match=r"it was not renewed for 3000\.0 s, longer than its 3000 s"):
            keeper.check()
        assert keeper.lost.is_set()

    assert store.renewals == 1
    assert len(told) == 1


def test_a_renewal_that_succeeds_too_late_does_not_revive_the_lease(store, clock):
    with keep(store, clock, BRISK_TTL_S) as keeper:
        seen = store.block_renewals()
        assert store.wait_for_renewals(seen + 1)
        clock.now_s += BRISK_TTL_S
        with pytest.raises(LeaseLost):
            keeper.check()
        store.unblock_renewals()

        with pytest.raises(LeaseLost, match="not renewed"):
            keeper.check()


def test_the_ttl_counts_from_when_a_renewal_was_sent_not_from_when_it_was_answered(store, clock):
    with keep(store, clock, BRISK_TTL_S) as keeper:
        seen = store.block_renewals()
        assert store.wait_for_renewals(seen + 1)
        sent_at_s = clock.now_s
        clock.now_s += BRISK_TTL_S * 0.9
        # What comes after the slow one fails, so nothing later than the slow one's sending counts.
        store.fail_renewals([None])
        store.renewal_error = DatabaseUnavailable("no server")
        store.unblock_renewals()

        assert keeper.lost.wait(120)
        assert clock.now_s - sent_at_s < BRISK_TTL_S


def test_an_on_lost_that_raises_is_logged_and_the_lease_is_lost_all_the_same(store, clock, caplog):
    def explode(error):
        raise RuntimeError("of the callback")

    with keep(store, clock, ASLEEP_TTL_S, on_lost=explode) as keeper:
        clock.now_s += ASLEEP_TTL_S
        with pytest.raises(LeaseLost):
            keeper.check()

    assert keeper.lost.is_set()
    assert "on_lost failed" in caplog.text


def test_the_clock_runs_while_the_machine_sleeps():
    before_s, now_s, after_s = (
        time.clock_gettime(time.CLOCK_BOOTTIME),
        elapsed_s(),
        time.clock_gettime(time.CLOCK_BOOTTIME),
    )

    assert before_s <= now_s <= after_s
