"""Which topic a lane is drained from: Kafka may have given its name to another since."""

from __future__ import annotations

from pipestream.drain.backfill import Backfill
from pipestream.errors import TopicReplaced
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.ledger import Ledger


def identify_topic(
    broker: Broker, ledger: Ledger, lane: str, topic: str, backfill: Backfill | None = None
) -> TopicIdentity:
    """Return the topic of a name, if it is still the one that the lane's heads belong to.

    :raises TopicMissing: there is none.
    :raises TopicReplaced: it was deleted and made again.
    """
    identity = broker.identify(topic)
    if ledger.is_same_topic(lane, topic, identity.topic_id):
        return identity
    if backfill:
        raise TopicReplaced(topic, f"backfill {backfill.backfill_id} was of the old one; take another backfill id")
    raise TopicReplaced(topic)
