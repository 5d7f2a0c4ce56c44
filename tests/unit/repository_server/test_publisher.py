"""The thread that publishes what waits in the outbox, without servers."""

from __future__ import annotations

from pipestream.repository_server import publisher as publisher_module
from pipestream.repository_server.publisher import Publisher
from pipestream.settings import Settings
from pipestream_testing.waiting import wait_until


class FullProcess:
    """Has no file left to open a connection with."""

    def __init__(self):
        self.calls = 0

    def all(self):
        raise OSError(24, "Too many open files")

    def counts(self):
        self.calls += 1
        if self.calls == 1:
            raise OSError(24, "Too many open files")
        return {}


def test_the_outbox_is_looked_at_again_after_an_error_of_any_kind(monkeypatch):
    monkeypatch.setattr(publisher_module, "_LOOK_S", 0.01)
    server = FullProcess()
    monkeypatch.setattr(publisher_module, "Outbox", lambda _tables: server)

    with Publisher(Settings(), None, None, server) as publisher:
        wait_until(lambda: server.calls >= 3, timeout_s=20)

        assert publisher._thread.is_alive()
