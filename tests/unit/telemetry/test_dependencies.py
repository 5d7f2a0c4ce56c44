from __future__ import annotations

from pipestream.errors import BrokerUnavailable, DatabaseUnavailable
from pipestream.telemetry.dependencies import DependencyWatch
from pipestream_testing.waiting import wait_until


class Servers:
    """Dependencies that are away as the test says."""

    def __init__(self):
        self.errors = {}

    def checks(self, *names):
        return {name: lambda name=name: self.check(name) for name in names}

    def check(self, name):
        if error := self.errors.get(name):
            raise error


def test_a_dependency_that_is_away_is_named_until_it_is_back():
    servers = Servers()
    with DependencyWatch(servers.checks("Kafka", "PostgreSQL"), every_s=0.01) as watch:
        servers.errors["PostgreSQL"] = DatabaseUnavailable("it does not answer")
        wait_until(watch.problems, "nobody noticed")
        one_away = watch.problems()
        servers.errors["Kafka"] = BrokerUnavailable("no broker")
        wait_until(lambda: len(watch.problems()) == 2, "nobody noticed the second")
        servers.errors.clear()
        wait_until(lambda: not watch.problems(), "nobody noticed that they are back")

    assert one_away == [f"PostgreSQL: {DatabaseUnavailable('it does not answer')}"]


def test_a_check_with_a_bug_does_not_end_the_watch():
    servers = Servers()
    servers.errors["Kafka"] = ZeroDivisionError("bug")
    with DependencyWatch(servers.checks("Kafka"), every_s=0.01) as watch:
        wait_until(watch.problems, "nobody noticed")
        assert watch.problems() == ["Kafka: unexpected ZeroDivisionError: bug"]

        servers.errors.clear()
        wait_until(lambda: not watch.problems(), "the watch has ended")
