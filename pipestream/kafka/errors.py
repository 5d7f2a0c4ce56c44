"""Turn Kafka's errors into ours: transient ones, terminal ones, and events that are not errors."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from pipestream.errors import BrokerRefused, BrokerUnavailable, TopicMissing
from pipestream.kafka.connection import find_refusal
from pipestream.settings import Settings

log = logging.getLogger(__name__)

_TOPIC_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_REFUSED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.SECURITY_DISABLED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError._INVALID_ARG,
)
_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # A broker that was just restarted may know less of its own leadership than the client remembers.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
_RECONNECTING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE)
_UNREACHABLE = (*_RECONNECTING, KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT)
_EXPIRED = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)

_MOVING_PAUSE_S = 0.1
# A broker answers within milliseconds. After so long, somebody who waits wants to know for whom.
_SILENCE_S = 3.0

Answer = TypeVar("Answer")


def is_end_of_partition(error: KafkaError) -> bool:
    """Return whether this is not an error but the event that a partition was read to its end."""
    return error.code() == KafkaError._PARTITION_EOF


def is_passing(error: KafkaError) -> bool:
    """Tell whether the client recovers from an error by itself, so that the reader only has to wait."""
    return bool(error.retriable()) or error.code() in _RECONNECTING


def is_expired(error: KafkaError) -> bool:
    """Tell whether the offset that was asked for is not on the broker any more."""
    return error.code() in _EXPIRED


def is_missing(error: KafkaError) -> bool:
    """Tell whether the broker that answered knows no such topic or partition."""
    return error.code() in _TOPIC_MISSING


def is_fenced(error: KafkaError) -> bool:
    """Tell whether a newer producer has started under the same transactional id."""
    return error.code() in _FENCED


def ask_patiently(ask: Callable[[], Answer], timeout_s: float) -> Answer:
    """Ask again while the broker is still settling who answers: on a new broker, for a new topic, after a restart."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                raise
        time.sleep(_MOVING_PAUSE_S)


@contextmanager
def explain_errors(settings: Settings, topic: str = "") -> Iterator[None]:
    """Turn the client's errors into ours, and say in the log that an answer is long in coming.

    :param topic: what the question is about.
    """
    notice = threading.Timer(_SILENCE_S, _tell_of_silence, (settings,))
    notice.daemon = True
    notice.start()
    try:
        yield
    except KafkaException as error:
        raise explain(error.args[0], settings, topic) from error
    finally:
        notice.cancel()


def _tell_of_silence(settings: Settings) -> None:
    """Say who is waited for: the client itself reports nothing until a call ends."""
    address, timeout_s = settings.kafka_bootstrap, settings.kafka_timeout_s
    log.warning("Kafka at %s has not answered for %g s; waiting up to %g s", address, _SILENCE_S, timeout_s)


def explain(error: KafkaError, settings: Settings, topic: str = "") -> TopicMissing | BrokerRefused | BrokerUnavailable:
    """Return our error for one of the client's; ``topic`` is what the question was about."""
    if topic and error.code() in _TOPIC_MISSING:
        return TopicMissing(topic)
    if error.code() in _UNREACHABLE and (refusal := find_refusal(settings)):
        return BrokerRefused(f"Kafka at {settings.kafka_bootstrap}: refused: {refusal.str()}; check kafka_options")
    about = f", topic {topic}" if topic else ""
    return explain_while(f"Kafka at {settings.kafka_bootstrap}{about}", error)


def explain_while(doing: str, error: KafkaError) -> BrokerRefused | BrokerUnavailable:
    """Return our error for one of the client's that stopped what was being done."""
    if error.code() in _REFUSED:
        return BrokerRefused(f"{doing}: refused: {error.str()}")
    return BrokerUnavailable(f"{doing}: {error.str()}")
