from __future__ import annotations

import pytest
from pydantic import SecretStr

from pipestream.errors import DocumentMissing, StoreRefused, StoreUnavailable
from pipestream.ledger import Ledger
from pipestream.objects.buckets import ensure_buckets
from pipestream.objects.ranges import ByteRange
from pipestream.objects.store import open_store

pytestmark = pytest.mark.stack


@pytest.fixture
def store(settings):
    with open_store(settings.store_uri, settings) as opened:
        yield opened


def test_objects_come_back_as_they_were_put(store):
    objects = [(f"streams/acme/s{number}/n.pb", bytes([number % 256]) * number) for number in range(100)]

    store.put_many(objects)

    assert store.get_many([key for key, _ in objects]) == [data for _, data in objects]
    assert sorted(store.list("streams/acme")) == sorted(key for key, _ in objects)


def test_an_object_that_is_to_be_new_does_not_replace_one(store):
    was_put = [store.put_new("once.pb", data) for data in (b"first", b"second")]

    assert was_put == [True, False]
    assert store.get("once.pb") == b"first"


def test_names_that_are_written_once_keep_their_first_bytes(store):
    store.put_once([("1.pb", b"first"), ("2.pb", b"same")])

    taken = store.put_once([("1.pb", b"second"), ("2.pb", b"same"), ("3.pb", b"new")])

    assert taken == ["1.pb"]
    assert store.get_many(["1.pb", "2.pb", "3.pb"]) == [b"first", b"same", b"new"]


def test_a_missing_object_is_an_answer_for_its_key_alone(store):
    store.put("a/b.pb", b"here")

    there, missing = store.get_many(["a/b.pb", "a/none.pb"])

    assert there == b"here"
    assert isinstance(missing, DocumentMissing)
    assert store.exists("a/b.pb")
    assert not store.exists("a/none.pb")


def test_ranges_come_back_in_their_order_and_as_long_as_their_object_goes(store):
    store.put("a/b.pb", b"0123456789")
    wanted = [ByteRange("a/b.pb", *span) for span in ((4, 6), (0, 2), (8, 20), (20, 30))]

    assert store.get_ranges(wanted) == [b"45", b"01", b"89", b""]
    (missing,) = store.get_ranges([ByteRange("a/none.pb", 0, 2)])
    assert isinstance(missing, DocumentMissing)


def test_ids_with_every_allowed_character_can_be_keys(store):
    key = "documents/acme/files/aZ0_-.:@=+/x.pb"
    store.put(key, b"x")

    assert store.get(key) == b"x"
    assert list(store.list("documents")) == [key]


def test_a_large_object_goes_through(store):
    data = bytes(range(256)) * 100_000

    store.put("big.pb", data)

    assert store.get("big.pb") == data


def test_deleting_twice_is_not_an_error(store):
    store.put("a/b.pb", b"x")

    store.delete("a/b.pb")
    store.delete("a/b.pb")

    assert not store.exists("a/b.pb")


def test_two_prefixes_of_one_bucket_do_not_see_each_other(settings, store):
    store.put("a.pb", b"x")

    with open_store(settings.store_uri + "/below", settings) as other:
        assert list(other.list()) == []
        assert not other.exists("a.pb")


def with_a_wrong_secret(settings):
    return settings.model_copy(update={"s3_secret_key": SecretStr("wr0ng-secret")})


def with_a_wrong_key(settings):
    return settings.model_copy(update={"s3_access_key": SecretStr("n0body")})


def with_a_missing_bucket(settings):
    return settings.model_copy(update={"store_uri": "s3://no-such-bucket", "ledger_uri": "s3://no-such-bucket/ledger"})


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("a.pb"),
        lambda store: store.get_many(["a.pb", "b.pb"]),
        lambda store: store.put("a.pb", b"x"),
        lambda store: store.put_new("a.pb", b"x"),
        lambda store: store.exists("a.pb"),
        lambda store: store.delete("a.pb"),
        lambda store: list(store.list()),
    ],
    ids=["get", "get_many", "put", "put_new", "exists", "delete", "list"],
)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_a_wrong_secret, "s3_secret_key"),
        (with_a_wrong_key, "s3_access_key"),
        (with_a_missing_bucket, "the bucket does not exist"),
    ],
)
def test_what_the_server_refuses_is_trouble_of_the_settings_that_no_retry_changes(settings, change, reason, call):
    refused = change(settings)

    with open_store(refused.store_uri, refused) as store, pytest.raises(StoreRefused, match=reason) as caught:
        call(store)

    assert not caught.value.transient
    assert "wr0ng-secret" not in str(caught.value)


@pytest.mark.parametrize("change", [with_a_wrong_secret, with_a_wrong_key, with_a_missing_bucket])
@pytest.mark.parametrize(
    "call",
    [
        lambda ledger: ledger.heads("g", "t", [0]),
        lambda ledger: ledger.table_uris(),
        lambda ledger: ledger.find_plan("plan", "g"),
        lambda ledger: ledger.entries(),
    ],
    ids=["heads", "tables", "plan", "entries"],
)
def test_what_the_server_refuses_the_ledger_is_not_tried_again(settings, unique, change, call):
    refused = change(settings.model_copy(update={"ledger_uri": f"s3://pipestream/{unique}/ledger"}))

    with pytest.raises(StoreRefused) as caught:
        call(Ledger(refused))

    assert not caught.value.transient
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("change", [with_a_wrong_secret, with_a_wrong_key])
def test_a_bucket_that_may_not_be_made_is_not_tried_again(settings, unique, change):
    refused = change(settings.model_copy(update={"store_uri": f"s3://{unique}-new/x"}))

    with pytest.raises(StoreRefused, match="cannot be made"):
        ensure_buckets(refused)


def test_a_server_that_is_not_there_is_an_error(settings):
    aimed_wrong = settings.model_copy(update={"s3_endpoint": "http://127.0.0.1:1"})

    with open_store(aimed_wrong.store_uri, aimed_wrong) as store, pytest.raises(StoreUnavailable):
        store.put_many([(f"a{number}.pb", b"x") for number in range(40)])


def test_the_buckets_of_the_store_and_of_the_ledger_are_made_once(settings, unique):
    other = settings.model_copy(
        update={"store_uri": f"s3://{unique}-objects/prefix", "ledger_uri": f"s3://{unique}-ledger/prefix"}
    )

    assert ensure_buckets(other) == [f"{unique}-objects", f"{unique}-ledger"]
    assert ensure_buckets(other) == []
    with open_store(other.store_uri, other) as store:
        store.put("a.pb", b"x")
        assert store.get("a.pb") == b"x"


def test_a_bucket_that_store_and_ledger_share_is_made_once(settings, unique):
    other = settings.model_copy(update={"store_uri": f"s3://{unique}/objects", "ledger_uri": f"s3://{unique}/ledger"})

    assert ensure_buckets(other) == [unique]


def test_a_bucket_cannot_be_made_where_no_server_is(settings):
    aimed_wrong = settings.model_copy(update={"s3_endpoint": "http://127.0.0.1:1"})

    with pytest.raises(StoreUnavailable, match="cannot be made"):
        ensure_buckets(aimed_wrong)
