"""How every client connects, and why one cannot."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pipestream.settings import Settings

# Long enough for a handshake and a login across continents, and for the pause that brokers make after a wrong password.
_LOGIN_S = 5.0
_NOT_LET_IN = (KafkaError._AUTHENTICATION, KafkaError._SSL)


def client_config(settings: Settings) -> dict[str, Any]:
    """Return what every client needs. Holds secrets: not for printing."""
    return {
        **{name: value.get_secret_value() for name, value in settings.kafka_options.items()},
        "bootstrap.servers": settings.kafka_bootstrap,
        "client.id": "pipestream",
        "log.connection.close": False,
    }


def find_refusal(settings: Settings) -> KafkaError | None:
    """Return why brokers do not let us in, if that is what keeps them from answering.

    A client that is not let in tries forever, and whatever it was asked merely times out: only its callback for
    errors hears of the reason.
    """
    if not settings.kafka_options:
        return None
    heard: list[KafkaError] = []
    config = {**client_config(settings), "error_cb": heard.append, "log_level": 0}
    client = AdminClient(config)
    with suppress(KafkaException):
        client.list_topics(timeout=min(_LOGIN_S, settings.kafka_timeout_s))
    client.poll(0)
    return next((error for error in heard if error.code() in _NOT_LET_IN), None)
