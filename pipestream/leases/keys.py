"""Which Consul key belongs to which name, and back.

====================================  ===========================================
name                                  key of its registration and of slot 0
====================================  ===========================================
``intake.{datasource}``               ``pipestream/intake-topics/{datasource}``
``pipestream.{cluster}.{node}``       ``pipestream/node-topics/{cluster}.{node}``
``bridge.{cluster}.{node}``           ``pipestream/bridge-topics/{cluster}.{node}``
``dlq.{cluster}.{node}``              ``pipestream/dlq-topics/{cluster}.{node}``
a topic that an edge names itself     ``pipestream/other-topics/{topic}``
any of them, drained by a graph       the topic's key with ``@{graph}``
any of them, in a backfill            the topic's key with ``@{graph}@{backfill}``
====================================  ===========================================

The lock of slot 0 is on the key itself, those of further slots are under it, at ``…/slots/{slot}``.
What the operator wants of a topic is at ``pipestream/desired/{topic}``, and when the lease of a slot was last renewed
at ``pipestream/renewals/{name}/{slot}``.
"""

from __future__ import annotations

from pipestream.errors import IdInvalid
from pipestream.leases.names import check_leased
from pipestream.topic_names import TopicKind

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


def name_key(name: str) -> str:
    """Return the key of a name's registration, which is also the lock of its slot 0.

    :raises IdInvalid: the name cannot be leased.
    """
    check_leased(name)
    prefix, _, rest = name.partition(".")
    return _FOLDERS[prefix] + rest if prefix in _FOLDERS else _OTHERS + name


def slot_key(name: str, slot: int) -> str:
    """Return the key whose lock is a slot."""
    key = name_key(name)
    return key if slot == 0 else f"{key}/slots/{slot}"


def desired_key(topic: str) -> str:
    """Return the key of what the operator wants of a topic."""
    return DESIRED + check_leased(topic)


def renewals_folder(name: str) -> str:
    """Return what the keys of a name's renewals begin with."""
    return f"{RENEWALS}{check_leased(name)}/"


def renewal_key(name: str, slot: int) -> str:
    """Return the key that says when the lease of a slot was last renewed."""
    return f"{renewals_folder(name)}{slot}"


def parse_slot_key(key: str) -> tuple[str, int] | None:
    """Return the name and slot whose lock a key is; None for a key that is not a slot's."""
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
            name = check_leased(f"{prefix}.{rest}" if prefix else rest)
        except IdInvalid:
            return None  # someone else's key; it is theirs to look after
        return name, int(slot)
    return None
