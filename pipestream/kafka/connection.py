"""How every client connects, and why one cannot."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pipestream.settings import Settings

# Long enough for a handshake and a login across continents, and for the pause that brokers make after a wrong password.
_LOGIN_S = 5.0
_LOGIN_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)


def client_config(settings: Settings) -> dict[str, Any]:
    """Return what every client needs. Holds secrets: not for printing."""
    return {
        **{name: value.get_secret_value() for name, value in settings.kafka_options.items()},
        "bootstrap.servers": settings.kafka_bootstrap,
        "client.id": "pipestream",
        "log.connection.close": False,
    }


def find_refusal(settings: Settings) -> KafkaError | None:
    """Return why brokers refuse the login, if that is why they do not answer.

    A client whose login is refused retries forever, and every call times out: only its callback for errors gets the
    reason.
    """
    if not settings.kafka_options:
        return None
    heard: list[KafkaError] = []
    config = {**client_config(settings), "error_cb": heard.append, "log_level": 0}
    client = AdminClient(config)
    with suppress(KafkaException):
        client.list_topics(timeout=min(_LOGIN_S, settings.kafka_timeout_s))
    client.poll(0)
    return next((error for error in heard if error.code() in _LOGIN_REFUSED), None)
