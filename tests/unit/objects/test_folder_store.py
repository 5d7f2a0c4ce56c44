from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream.errors import DocumentMissing, IdInvalid, SettingsInvalid, StoreRefused, StoreUnavailable
from pipestream.objects.s3 import split_bucket
from pipestream.objects.store import open_store
from pipestream.settings import Settings

SETTINGS = Settings()


@pytest.fixture
def store(tmp_path):
    with open_store(f"file://{tmp_path / 'objects'}", SETTINGS) as opened:
        yield opened


def test_objects_come_back_as_they_were_put(store):
    objects = [(f"streams/acme/s{number}/n.pb", os.urandom(number)) for number in range(60)]

    store.put_many(objects)

    assert store.get_many([key for key, _ in objects]) == [data for _, data in objects]
    assert sorted(store.list()) == sorted(key for key, _ in objects)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_refused_and_nothing_is_left(store, tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)

    with pytest.raises(StoreRefused, match=r"has no hard links.*set store_uri"):
        store.put_new("a/b.pb", b"x")

    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_putting_the_same_object_again_is_harmless(store):
    store.put("a/b.pb", b"x")
    store.put("a/b.pb", b"x")

    assert store.get("a/b.pb") == b"x"
    assert list(store.list()) == ["a/b.pb"]


def test_a_name_that_is_written_once_keeps_its_first_bytes(store):
    assert store.put_once([("a/1.pb", b"first"), ("a/2.pb", b"same")]) == []

    taken = store.put_once([("a/1.pb", b"second"), ("a/2.pb", b"same"), ("a/3.pb", b"new")])

    assert taken == ["a/1.pb"]
    assert store.get_many(["a/1.pb", "a/2.pb", "a/3.pb"]) == [b"first", b"same", b"new"]


def test_an_object_that_is_stored_again_counts_as_written_now(store, tmp_path):
    store.put("a/b.pb", b"x")
    os.utime(tmp_path / "objects" / "a" / "b.pb", (0, 0))

    store.put_once([("a/b.pb", b"x")])

    (found,) = store.describe("a")
    assert found.modified_at.year > 1970


def test_of_many_writers_of_one_name_one_is_first_and_all_others_hear_of_it(store):
    writers = [[("a/b.pb", str(number).encode())] for number in range(8)]

    with ThreadPoolExecutor(len(writers)) as pool:
        taken = list(pool.map(store.put_once, writers))

    (first,) = [items for items, refused in zip(writers, taken, strict=True) if not refused]
    assert store.get("a/b.pb") == first[0][1]


def test_a_missing_object_is_an_answer_for_its_key_alone(store):
    store.put("a/b.pb", b"here")

    there, missing, again = store.get_many(["a/b.pb", "a/none.pb", "a/b.pb"])

    assert (there, again) == (b"here", b"here")
    assert isinstance(missing, DocumentMissing)
    assert "a/none.pb" in str(missing)


@pytest.mark.parametrize("key", ["a", "a/none", "a/b.pb/below"])
def test_a_folder_or_a_path_through_a_file_is_not_an_object(store, key):
    store.put("a/b.pb", b"x")

    assert not store.exists(key)
    with pytest.raises(DocumentMissing):
        store.get(key)


def test_nothing_asked_is_nothing_answered(store):
    store.put_many([])

    assert store.get_many([]) == []


@pytest.mark.parametrize("call", [lambda s, k: s.put(k, b""), lambda s, k: s.get(k), lambda s, k: s.delete(k)])
@pytest.mark.parametrize("key", ["../outside", "/etc/passwd", "a/../../b", ""])
def test_a_key_that_leaves_the_folder_is_refused(store, tmp_path, call, key):
    with pytest.raises(IdInvalid):
        call(store, key)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["objects"]


def test_lists_only_what_is_below_a_prefix(store):
    for key in ("a/1.pb", "a/b/2.pb", "ab/3.pb"):
        store.put(key, b"x")

    assert sorted(store.list("a")) == ["a/1.pb", "a/b/2.pb"]
    assert list(store.list("nowhere")) == []


def test_deleting_twice_is_not_an_error(store):
    store.put("a.pb", b"x")

    store.delete("a.pb")
    store.delete("a.pb")

    assert not store.exists("a.pb")


def test_a_folder_that_vanished_is_trouble_of_the_store_not_of_a_document(store, tmp_path):
    store.put("a.pb", b"x")
    shutil.rmtree(tmp_path / "objects")

    with pytest.raises(StoreUnavailable):
        store.get("a.pb")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreUnavailable, match="cannot be used"):
        open_store(f"file://{tmp_path / 'file' / 'objects'}", SETTINGS)


def test_a_relative_folder_is_taken_from_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("file://some/objects", SETTINGS) as store:
        monkeypatch.chdir("/")
        store.put("a.pb", b"x")

    assert (tmp_path / "some" / "objects" / "a.pb").read_bytes() == b"x"


def test_a_reader_never_sees_half_an_object(store):
    """Two writers change a large object while a reader reads it."""
    contents = [bytes([number]) * 2_000_000 for number in (1, 2)]
    store.put("a.pb", contents[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for data in contents:
                store.put("a.pb", data)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(store.get("a.pb") in contents for _ in range(50))
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("uri", ["", "objects", "file://", "ftp://x", "s3://", "s3:///prefix"])
def test_an_address_that_is_not_a_store_is_refused(uri):
    with pytest.raises(SettingsInvalid, match="expected"):
        open_store(uri, SETTINGS)


def test_takes_an_s3_address_apart():
    assert split_bucket("s3://bucket") == ("bucket", "")
    assert split_bucket("s3://bucket/a/b/") == ("bucket", "a/b")


def test_plain_http_is_used_only_where_the_endpoint_says_so(tmp_path):
    """An https endpoint never falls back: the connection is refused, not downgraded."""
    settings = Settings(s3_endpoint="https://127.0.0.1:1", s3_access_key="k", s3_secret_key="s")

    with open_store("s3://bucket", settings) as store, pytest.raises(StoreUnavailable, match=r"https://127"):
        store.get("a.pb")


@pytest.mark.parametrize("call", [lambda store: store.get("a.pb"), lambda store: store.put("a.pb", b"x")])
def test_a_server_that_accepts_and_never_answers_is_given_up(call):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = Settings(s3_endpoint=endpoint, s3_access_key="k", s3_secret_key="s3cret", s3_timeout_s=0.5)

        with open_store("s3://bucket", settings) as store, pytest.raises(StoreUnavailable) as caught:
            call(store)

    assert "s3cret" not in str(caught.value)


def test_what_a_killed_writer_leaves_behind_is_not_an_object(store, tmp_path):
    store.put("a/b.pb", b"x")
    (tmp_path / "objects" / "a" / "b.pb#1").write_bytes(b"half")

    assert list(store.list()) == ["a/b.pb"]
    store.put("a/b.pb", b"y")
    assert store.get("a/b.pb") == b"y"


def test_a_write_that_fails_leaves_nothing_behind(store, tmp_path):
    store.put("a/b/c.pb", b"x")

    with pytest.raises(StoreUnavailable):
        store.put("a/b", b"a folder is there")
    assert not store.put_new("a/b/c.pb", b"y")

    assert sorted(file.name for file in (tmp_path / "objects").rglob("*")) == ["a", "b", "c.pb"]


def test_a_folder_given_as_a_proper_uri_is_that_folder(tmp_path):
    folder = tmp_path / "with blank"
    with open_store(folder.as_uri(), SETTINGS) as store:
        store.put("a.pb", b"x")

    assert (folder / "a.pb").read_bytes() == b"x"
