"""What is special about leases in PostgreSQL: its tables, its timeouts, and its failures."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from pipestream.database import Database
from pipestream.errors import DatabaseRefused, DatabaseUnavailable, LeaseLost, LeaseUnavailable
from pipestream.leases.sql import ACQUIRE, SqlLeaseStore
from pipestream.leases.store import DesiredState
from pipestream.topic_names import node_topic

pytestmark = pytest.mark.stack

TTL_S = 60.0


@pytest.fixture
def store(settings):
    yield (opened := SqlLeaseStore(settings))
    opened.close()


@pytest.fixture
def topic(unique):
    return node_topic(unique, "parser")


@pytest.fixture
def connection(settings):
    """A connection of the test's own, to look behind the store."""
    with psycopg.connect(settings.postgres_dsn.get_secret_value(), autocommit=True) as opened:
        yield opened


@pytest.fixture
def open_database(settings):
    opened = []

    def open_one(**options):
        opened.append(Database(settings.postgres_dsn, **options))
        return opened[-1]

    yield open_one
    for database in opened:
        database.close()


def with_dsn(settings, **parameters):
    dsn = make_conninfo(settings.postgres_dsn.get_secret_value(), **parameters)
    return settings.model_copy(update={"postgres_dsn": SecretStr(dsn)})


def backend_pid(connection):
    return connection.execute("SELECT pg_backend_pid()").fetchone()[0]


def test_the_tables_have_the_names_and_columns_of_the_architecture(store, connection, topic):
    store.set_desired(topic, DesiredState(started=False, replicas=2))
    store.acquire(topic, 1, "worker-a", TTL_S)

    state = connection.execute("SELECT pipeline_id, desired, replicas FROM pipeline_state").fetchall()
    lease = connection.execute("SELECT pipeline_id, slot, worker_id, lease_until > now() FROM leases").fetchall()

    assert state == [(topic, "stopped", 2)]
    assert lease == [(topic, 1, "worker-a", True)]


def test_acquiring_runs_serializable(store, connection, topic):
    store.register([topic])
    connection.execute("CREATE TABLE seen (isolation text)")
    connection.execute("""
        CREATE FUNCTION note_isolation() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO seen VALUES (current_setting('transaction_isolation'));
            RETURN NEW;
        END $$
    """)
    connection.execute(
        "CREATE TRIGGER note_isolation BEFORE INSERT ON leases FOR EACH ROW EXECUTE FUNCTION note_isolation()"
    )

    store.acquire(topic, 0, "worker-a", TTL_S)

    assert connection.execute("SELECT isolation FROM seen").fetchall() == [("serializable",)]


def waits_for_a_lock(connection):
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND wait_event_type = 'Lock'"
    )
    return connection.execute(query).fetchone() == (1,)


def test_an_acquire_that_another_transaction_got_in_the_way_of_is_done_again(
    settings, store, open_database, connection, topic
):
    store._database = open_database(statement_timeout_s=120, answer_timeout_s=120)  # its lock is to be waited for
    held = store.acquire(topic, 0, "worker-a", TTL_S)
    dsn = settings.postgres_dsn.get_secret_value()
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE leases SET lease_until = clock_timestamp() - interval '1 ms'")  # not committed yet
        taking = pool.submit(store.acquire, topic, 0, "worker-b", TTL_S)
        while not waits_for_a_lock(connection):
            assert not taking.done(), "it did not wait for the other transaction"
            time.sleep(0.02)
        other.commit()
        taken = taking.result(120)

    # Only such a transaction is refused the row that changed under it, and tried again. The sequence keeps what
    # the try that was rolled back took from it.
    assert taken.token == held.token + 2


def test_an_expired_row_is_taken_over_in_place_and_its_old_holder_told_by_whom(store, connection, topic):
    lost = store.acquire(topic, 0, "worker-a", TTL_S)
    kept = store.acquire(topic, 1, "worker-a", TTL_S)
    connection.execute("UPDATE leases SET lease_until = clock_timestamp() - interval '1 ms' WHERE slot = 0")

    taken = store.acquire(topic, 0, "worker-b", TTL_S)

    rows = connection.execute("SELECT slot, worker_id, token FROM leases ORDER BY slot").fetchall()
    assert rows == [(0, "worker-b", taken.token), (1, "worker-a", kept.token)]
    assert taken.token > kept.token > lost.token
    with pytest.raises(LeaseLost, match="worker-b holds it now"):
        store.renew(lost)
    store.renew(kept)


@pytest.fixture(params=[-6, 6])
def clock_off(request, monkeypatch):
    """Every wall clock that Python code reads in this process is hours off."""
    off_s = request.param * 3_600
    right_s, right_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: right_s() + off_s)
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + off_s * 10**9)

    class Datetime(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

    for name, module in list(sys.modules.items()):
        if name.startswith("pipestream.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Datetime)


@pytest.mark.usefixtures("clock_off")
def test_a_worker_whose_clock_is_hours_off_gets_a_lease_of_the_asked_length(store, connection, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.renew(lease)

    query = "SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM leases"
    [(left_s,)] = connection.execute(query).fetchall()
    assert 0 < left_s <= TTL_S


@pytest.mark.usefixtures("clock_off")
def test_a_worker_whose_clock_is_hours_off_takes_what_is_held_for_held(store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)

    with pytest.raises(LeaseUnavailable, match="leased by worker-a"):
        store.acquire(topic, 0, "worker-b", TTL_S)
    assert not store.wait_free(topic, 0, 0)
    assert [found.holder for found in store.assignments(topic)] == ["worker-a"]
    store.renew(lease)


@pytest.mark.usefixtures("clock_off")
def test_a_worker_whose_clock_is_hours_off_takes_what_has_run_out_for_free(store, connection, topic):
    lost = store.acquire(topic, 0, "worker-a", TTL_S)
    connection.execute("UPDATE leases SET lease_until = clock_timestamp() - interval '1 ms'")

    assert store.wait_free(topic, 0, 0)
    assert [found.holder for found in store.assignments(topic)] == [""]
    with pytest.raises(LeaseLost, match="it ran out"):
        store.renew(lost)
    assert store.acquire(topic, 0, "worker-b", TTL_S).token > lost.token


def test_workers_that_start_at_once_on_an_empty_database_do_not_get_in_each_others_way(settings, topic):
    stores = [SqlLeaseStore(settings) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda store: store.register([topic]), stores))

    assert stores[0].topics() == [topic]
    for store in stores:
        store.close()


def test_an_attempt_whose_answer_was_lost_finds_its_own_lease_again(store, connection, topic):
    store.register([topic])
    values = {"name": topic, "slot": 0, "holder": "worker-a", "ttl": "60 s", "handle": "one attempt"}

    [first], [second] = (connection.execute(ACQUIRE, values).fetchone() for _ in range(2))

    assert second > first
    assert connection.execute(ACQUIRE, values | {"handle": "another attempt"}).fetchone() is None


def test_a_connection_that_broke_while_idle_is_made_anew(store, connection, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    cut = connection.execute(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    ).fetchone()
    assert cut == (1,)

    store.renew(lease)


def test_a_server_that_cannot_be_reached_is_a_transient_error_that_keeps_the_password(settings, topic):
    store = SqlLeaseStore(with_dsn(settings, port=1, password="hunter2"))

    with pytest.raises(DatabaseUnavailable, match="PostgreSQL does not answer") as caught:
        store.acquire(topic, 0, "worker-a", TTL_S)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_password_that_gets_into_a_message_is_blotted_out(settings):
    # The server quotes the name of a user it refuses, which is here the password as well.
    store = SqlLeaseStore(with_dsn(settings, user="hunter2", password="hunter2"))

    with pytest.raises(DatabaseUnavailable, match=r"\*\*\*") as caught:
        store.topics()

    assert "hunter2" not in str(caught.value)


def test_a_statement_that_takes_too_long_is_given_up_by_the_server(open_database):
    database = open_database(statement_timeout_s=2)

    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        database.run(lambda c: c.execute("SELECT pg_sleep(600)"))

    assert database.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)


def test_a_server_that_stopped_answering_is_cut_off_and_asked_anew(open_database):
    database = open_database(answer_timeout_s=3)
    pid = database.run(backend_pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert database.run(backend_pid) != pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_fresh_connection_that_breaks_is_not_tried_forever(open_database):
    tries = []

    def break_off(connection):
        tries.append(backend_pid(connection))
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(DatabaseUnavailable, match="terminating connection"):
        open_database().run(break_off)

    assert len(tries) == 1


def test_work_that_keeps_conflicting_is_given_up(open_database, monkeypatch):
    monkeypatch.setattr("pipestream.database.SERIALIZATION_PAUSE_MAX_S", 0.005)
    tries = []

    def conflict(_):
        tries.append(1)
        raise psycopg.errors.SerializationFailure("could not serialize access")

    with pytest.raises(DatabaseUnavailable, match="could not serialize access"):
        open_database().run(conflict, serializable=True)

    assert len(tries) == 12


def test_a_server_that_only_reads_is_a_transient_error(settings, topic):
    """So does a standby answer until it has taken over."""
    store = SqlLeaseStore(with_dsn(settings, options="-c default_transaction_read_only=on"))

    with pytest.raises(DatabaseUnavailable, match="read-only transaction"):
        store.register([topic])
    store.close()


def test_a_database_with_other_tables_of_these_names_is_refused(store, connection, topic):
    connection.execute("CREATE TABLE leases (landlord text)")

    with pytest.raises(DatabaseRefused, match="must name a database of this product's own"):
        store.acquire(topic, 0, "worker-a", TTL_S)


def test_options_in_the_dsn_are_kept(settings):
    database = Database(with_dsn(settings, options="-c geqo=off").postgres_dsn)

    assert database.run(lambda c: c.execute("SHOW geqo").fetchone()) == ("off",)
    database.close()
