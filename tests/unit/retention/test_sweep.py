"""A sweep against a model of Kafka: whatever happens in between, nothing that is still needed goes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipestream.documents.segments import build_segment
from pipestream.objects.store import open_store
from pipestream.retention.policies import Policies
from pipestream.retention.references import References
from pipestream.retention.sweep import Sweep
from pipestream.retention.unreferenced import KEY, read_unreferenced
from pipestream.settings import Settings
from pipestream.wire import DocumentReference, PipeDoc, PipeStream

KEEP = timedelta(hours=5)
GRACE = timedelta(hours=4)
LIFE = timedelta(hours=30)
"""How long Kafka keeps records at least."""
START = datetime(2026, 1, 1, tzinfo=UTC)
POLICIES = Policies({"parse": KEEP}, {("acme", "files"): KEEP})


class Rows:
    """A catalogue: which uploads are still to be published, and which rows were removed."""

    def __init__(self) -> None:
        self.pending: set[str] = set()
        self.forgotten: list[str] = []
        self.noted: set[tuple[str, str, str]] = set()

    def note_deletions(self, documents: Iterable[tuple[str, str, str]]) -> None:
        self.noted |= set(documents)

    def forget(self, _account: str, _datasource: str, _document: str, key: str) -> bool:
        if key in self.pending:
            return False
        self.forgotten.append(key)
        return True


class World:
    """Objects in a folder, with times of our own, and records that refer to them."""

    def __init__(self, folder: Path, life: timedelta = LIFE) -> None:
        self.folder = folder
        self.life = life
        self.store = open_store(folder.as_uri(), Settings())
        self.rows = Rows()
        self.now = START
        self.records: list[tuple[str, datetime]] = []
        """The key that each refers to, and when it was sent."""

    def put(self, key: str, data: bytes = b"document") -> str:
        self.store.put(key, data)
        moment = self.now.timestamp()
        os.utime(self.folder / key, (moment, moment))
        return key

    def send(self, key: str) -> None:
        self.records.append((key, self.now))

    def expire(self) -> None:
        """Delete the records that a topic need not keep any more."""
        self.records = [each for each in self.records if self.now - each[1] < self.life]

    def references(self) -> References:
        found = References()
        for key, _ in self.records:
            found.add(PipeStream(document_ref=DocumentReference(object_key=key)).SerializeToString())
        return found

    def sweep(self, *, dry_run: bool = False, store=None):
        made = Sweep(store or self.store, self.rows, POLICIES, self.now, GRACE, dry_run=dry_run)
        return made.run(self.references(), read_unreferenced(self.store).as_of(self.now, self.life), self.now)

    def keys(self) -> set[str]:
        return set(self.store.list()) - {KEY}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "objects")
    yield made
    made.store.close()


def output(number: int = 0) -> str:
    return f"streams/acme/s-{number}/parse.pb"


UPLOAD = "documents/acme/files/d/abc.pb"
BLOB = "blobs/acme/files/d/" + "a" * 64


def test_an_object_goes_when_two_scans_a_grace_period_apart_found_it_old_and_unreferenced(world):
    world.put(output())
    world.now += KEEP + timedelta(seconds=1)

    assert (world.sweep().deleted, world.keys()) == (0, {output()})
    world.now += GRACE - timedelta(seconds=1)
    assert (world.sweep().deleted, world.keys()) == (0, {output()})
    world.now += timedelta(seconds=1)
    assert (world.sweep().deleted, world.keys()) == (1, set())


@pytest.mark.parametrize("holder", [UPLOAD, "streams/acme/s-1/other.pb", "documents/acme/kept/x/1.pb"])
def test_a_blob_goes_only_when_no_stored_document_refers_to_it(world, holder):
    world.put(BLOB)
    document = PipeDoc()
    document.blob_bag.blob.storage_ref.object_key = BLOB
    world.put(holder, document.SerializeToString())
    world.send(UPLOAD)  # a record keeps the upload itself
    for _ in range(3):
        world.now += KEEP + GRACE
        world.sweep()
        assert {BLOB} <= world.keys()

    world.store.delete_many([holder])
    for _ in range(2):
        world.now += GRACE
        world.sweep()
    assert not {BLOB} & world.keys()


def test_a_document_in_a_record_keeps_its_blobs(world):
    stream = PipeStream()
    stream.document.blob_bag.blobs.blob.add().storage_ref.object_key = BLOB
    found = References()
    found.add(stream.SerializeToString())

    assert BLOB in found


def test_an_object_that_is_young_or_kept_forever_is_not_even_listed(world):
    for key in (output(), "streams/acme/s-1/other.pb", "crash-markers/g/t/0.json"):
        world.put(key)
    world.now += KEEP

    done = world.sweep()

    assert (done.unreferenced, read_unreferenced(world.store).since) == (0, {})


def test_a_reference_that_appears_in_the_grace_period_keeps_the_object(world):
    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    world.send(output())
    world.now += GRACE * 2

    assert world.sweep().deleted == 0
    world.records.clear()
    assert world.sweep().deleted == 0, "the grace period starts again"
    assert world.keys() == {output()}


def test_an_object_that_was_written_again_begins_anew(world):
    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    world.now += timedelta(hours=1)
    world.put(output())
    world.now += KEEP * 2

    assert world.sweep().deleted == 0
    world.now += GRACE
    assert world.sweep().deleted == 1


def test_an_object_that_is_written_again_while_it_is_looked_at_stays(world):
    class LateWriter:
        def __getattr__(self, name):
            return getattr(world.store, name)

        def describe(self, prefix):
            for each in world.store.describe(prefix):
                world.put(each.key)  # after the list was made
                yield each

    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    world.now += GRACE

    assert world.sweep(store=LateWriter()).deleted == 0
    assert world.keys() == {output()}


def test_a_dry_run_says_what_would_go_and_changes_nothing(world):
    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    before = world.store.get(KEY)
    world.now += GRACE

    done = world.sweep(dry_run=True)

    assert (done.deleted, done.deleted_bytes, done.is_dry_run) == (1, 8, True)
    assert (world.keys(), world.store.get(KEY)) == ({output()}, before)


def test_the_row_of_an_upload_goes_with_it(world):
    world.put(UPLOAD)
    world.now += KEEP * 2
    world.sweep()
    world.now += GRACE

    assert world.sweep().deleted == 1
    assert world.rows.forgotten == [UPLOAD]


def test_an_upload_whose_reference_is_still_to_be_published_stays(world):
    world.put(UPLOAD)
    world.rows.pending.add(UPLOAD)
    world.now += KEEP * 2
    world.sweep()
    world.now += GRACE

    assert world.sweep().deleted == 0
    assert world.keys() == {UPLOAD}


def test_an_upload_that_is_brought_in_again_while_its_row_is_removed_stays(world):
    class BroughtInAgain(Rows):
        def forget(self, *place: str) -> bool:
            world.put(UPLOAD)
            return super().forget(*place)

    world.put(UPLOAD)
    world.now += KEEP * 2
    world.sweep()
    world.now += GRACE
    world.rows = BroughtInAgain()

    assert world.sweep().deleted == 0
    assert world.keys() == {UPLOAD}


def test_a_deletion_is_noted_before_the_row_is_removed_and_for_blobs_too(world):
    class Ordered(Rows):
        def forget(self, *place: str) -> bool:
            assert place[:3] in self.noted
            return super().forget(*place)

    blob = "blobs/acme/files/other/abc"
    world.put(UPLOAD)
    world.put(blob)
    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    assert world.rows.noted == set()
    world.now += GRACE
    world.rows = Ordered()

    assert world.sweep().deleted == 3
    assert world.rows.noted == {tuple(key.split("/")[1:4]) for key in (UPLOAD, blob)}


def test_a_list_that_cannot_be_read_begins_anew(world):
    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    world.store.put(KEY, b"half of a li")
    world.now += GRACE

    assert world.sweep().deleted == 0
    world.now += GRACE
    assert world.sweep().deleted == 1


def test_scans_between_which_a_record_could_come_and_go_unseen_do_not_count(world):
    world.put(output())
    world.now += KEEP * 2
    world.sweep()
    world.now += LIFE + timedelta(seconds=1)

    assert world.sweep().deleted == 0
    world.now += LIFE
    assert world.sweep().deleted == 1


def test_a_run_keeps_what_it_read_from_a_record_that_expired_meanwhile(world):
    world.put(output())
    world.send(output())
    world.now += LIFE
    # Here a run reads the record, and Kafka deletes it.
    world.expire()

    assert world.sweep().deleted == 0
    world.send(output())  # the run passes the reference on, within the grace period
    world.now += GRACE
    assert world.sweep().deleted == 0
    assert world.keys() == {output()}


class Killed(Exception):
    pass


class DyingStore:
    """A store whose process is killed after some changes."""

    def __init__(self, store, changes: int) -> None:
        self._store = store
        self._left = changes

    def __getattr__(self, name):
        return getattr(self._store, name)

    def delete_unchanged(self, listed):
        for each in listed:
            self._change()
            self._store.delete_unchanged([each])
        return listed

    def put(self, key, data):
        self._change()
        self._store.put(key, data)

    def _change(self) -> None:
        if not self._left:
            raise Killed
        self._left -= 1


@pytest.mark.parametrize("changes", range(5))
def test_a_sweep_that_was_killed_after_any_step_is_finished_by_the_next_one(world, changes):
    for number in range(4):
        world.put(output(number))
    world.send(output(3))
    world.now += KEEP * 2
    world.sweep()
    world.now += GRACE

    if changes < 4:
        with pytest.raises(Killed):
            world.sweep(store=DyingStore(world.store, changes))
    world.sweep()

    assert world.keys() == {output(3)}


class AnythingMayHappen(RuleBasedStateMachine):
    """Runs write objects before they commit, records wait, are passed on, die and expire, and sweeps are killed.

    What is assumed: nobody has a reference in memory for longer than the grace period, and Kafka keeps a record for at
    least its topic's retention.
    """

    @initialize(life=st.sampled_from([1, 6]))
    def begin(self, life: int) -> None:
        self._folder = TemporaryDirectory()
        self.world = World(Path(self._folder.name) / "objects", timedelta(hours=life))
        self.held: list[tuple[str, datetime]] = []
        """What runs have in memory: an object that they wrote, or the reference of a record that they read."""

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.store.close()
            self._folder.cleanup()

    # Few objects, and seldom written, so that enough happens to the same ones.
    @precondition(lambda self: not self.held and not self.world.records)
    @rule(number=st.integers(0, 1))
    def write_an_object_before_its_transaction(self, number: int) -> None:
        """A second time after the first try was aborted, or when its record is replayed."""
        self.held.append((self.world.put(output(number)), self.world.now))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def commit(self, data) -> None:
        number = data.draw(st.integers(0, len(self.held) - 1))
        self.world.send(self.held.pop(number)[0])

    @precondition(lambda self: self.world.records)
    @rule(data=st.data())
    def read_a_record(self, data) -> None:
        """A run, a replay or a backfill that may pass the same reference on."""
        self.held.append((data.draw(st.sampled_from(self.world.records))[0], self.world.now))

    @rule(hours=st.sampled_from([1, 3, 5, 12]))
    def let_time_pass(self, hours: int) -> None:
        """Runs end or are aborted, and records expire as soon as they may."""
        self.world.now += timedelta(hours=hours)
        self.held = [(key, since) for key, since in self.held if self.world.now - since < GRACE]
        self.world.expire()

    @rule(killed_after=st.none() | st.integers(0, 3))
    def sweep(self, killed_after) -> None:
        store = self.world.store if killed_after is None else DyingStore(self.world.store, killed_after)
        with suppress(Killed):
            self.world.sweep(store=store)

    @invariant()
    def nothing_that_is_needed_is_gone(self) -> None:
        if hasattr(self, "world"):
            needed = {key for key, _ in (*self.world.records, *self.held)}
            assert needed <= self.world.keys()


TestAnythingMayHappen = AnythingMayHappen.TestCase
TestAnythingMayHappen.settings = hypothesis_settings(deadline=None, max_examples=60, stateful_step_count=40)


SEGMENT = "segments/acme/parse/2026010100/2b0f6e5c-6f7a-4f0e-9a57-6f2c1d6a0c11"


def test_a_segment_stays_while_a_record_refers_to_one_of_its_documents(tmp_path):
    world = World(tmp_path)
    world.put(SEGMENT)
    world.send(SEGMENT)
    for _ in range(2):
        world.now += KEEP + GRACE
        assert world.sweep().deleted == 0
    world.records.clear()

    assert world.sweep().deleted == 0, "nothing refers to it since a moment ago"
    world.now += GRACE
    assert world.sweep().deleted == 1
    assert list(world.store.list("segments")) == []


def test_a_segment_that_a_dead_run_left_goes_like_any_other_document(tmp_path):
    world = World(tmp_path)
    world.put(SEGMENT)
    world.now += KEEP + GRACE
    world.sweep()
    world.now += GRACE

    assert world.sweep().deleted == 1


def test_a_blob_stays_while_a_document_in_a_segment_refers_to_it(tmp_path):
    world = World(tmp_path)
    blob = world.put(f"blobs/acme/files/d/{'a' * 64}")
    document = PipeDoc(doc_id="d")
    document.blob_bag.blob.storage_ref.object_key = blob
    world.put(SEGMENT, build_segment([b"", document.SerializeToString()]).data)

    world.send(SEGMENT)
    for _ in range(3):
        world.now += KEEP + GRACE
        world.send(SEGMENT)
        assert world.sweep().deleted == 0


def test_while_a_segment_is_damaged_the_blobs_of_its_account_stay_and_all_else_expires(tmp_path):
    world = World(tmp_path)
    blob = world.put(f"blobs/acme/files/d/{'a' * 64}")
    world.put(SEGMENT, b"damaged")
    for _ in range(2):
        world.now += KEEP + GRACE
        world.sweep()

    assert list(world.store.list("segments")) == []
    assert list(world.store.list("blobs")) == [blob]

    for _ in range(2):
        world.now += KEEP + GRACE
        world.sweep()
    assert list(world.store.list("blobs")) == []
