"""Which Consul key belongs to which topic, and back.

====================================  =====================================
topic                                 key of its registration and of slot 0
====================================  =====================================
``intake.{datasource}``               ``pipestream/intake-topics/{datasource}``
``pipestream.{cluster}.{node}``       ``pipestream/node-topics/{cluster}.{node}``
``bridge.{cluster}.{node}``           ``pipestream/bridge-topics/{cluster}.{node}``
``dlq.{cluster}.{node}``              ``pipestream/dlq-topics/{cluster}.{node}``
a topic that an edge names itself     ``pipestream/other-topics/{topic}``
a backfill of any of them             the topic's key with ``@{backfill}``
====================================  =====================================

The lock of slot 0 is on the key itself, those of further slots are under it, at ``…/slots/{slot}``.
What the operator wants of a topic is at ``pipestream/desired/{topic}``, and when the lease of a slot was last renewed
at ``pipestream/renewals/{topic}/{slot}``.
"""

from __future__ import annotations

from pipestream.errors import IdInvalid
from pipestream.topic_names import TopicKind, check_leased

ROOT = "pipestream/"
DESIRED = ROOT + "desired/"
RENEWALS = ROOT + "renewals/"

_FOLDERS = {
    TopicKind.INTAKE.value: ROOT + "intake-topics/",
    TopicKind.NODE.value: ROOT + "node-topics/",
    TopicKind.BRIDGE.value: ROOT + "bridge-topics/",
    TopicKind.DEAD_LETTERS.value: ROOT + "dlq-topics/",
}
_OTHERS = ROOT + "other-topics/"
FOLDERS = (*_FOLDERS.values(), _OTHERS)


def topic_key(topic: str) -> str:
    """Return the key of a topic's registration, which is also the lock of its slot 0.

    :raises IdInvalid: the name cannot be a topic's.
    """
    check_leased(topic)
    prefix, _, rest = topic.partition(".")
    return _FOLDERS[prefix] + rest if prefix in _FOLDERS else _OTHERS + topic


def slot_key(topic: str, slot: int) -> str:
    """Return the key whose lock is a slot."""
    key = topic_key(topic)
    return key if slot == 0 else f"{key}/slots/{slot}"


def desired_key(topic: str) -> str:
    """Return the key of what the operator wants of a topic."""
    return DESIRED + check_leased(topic)


def renewals_folder(topic: str) -> str:
    """Return what the keys of a topic's renewals begin with."""
    return f"{RENEWALS}{check_leased(topic)}/"


def renewal_key(topic: str, slot: int) -> str:
    """Return the key that says when the lease of a slot was last renewed."""
    return f"{renewals_folder(topic)}{slot}"


def parse_slot_key(key: str) -> tuple[str, int] | None:
    """Return the topic and slot whose lock a key is; None for a key that is no slot's."""
    for prefix, folder in (*_FOLDERS.items(), ("", _OTHERS)):
        if not key.startswith(folder):
            continue
        match key.removeprefix(folder).split("/"):
            case [rest]:
                slot = "0"
            case [rest, "slots", slot] if slot.isdecimal() and slot != "0":
                pass
            case _:
                return None
        try:
            topic = check_leased(f"{prefix}.{rest}" if prefix else rest)
        except IdInvalid:
            return None  # someone else's key; it is theirs to look after
        return topic, int(slot)
    return None
