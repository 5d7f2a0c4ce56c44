"""Which options of Kafka's client may be set: how to connect, encrypt and log in, but not what is read.

The names are librdkafka's. Other options are refused: a misspelt option must not be ignored, and most of the others
would break exactly once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_ALLOWED = frozenset(
    {
        "security.protocol",
        *("ssl.ca.location", "ssl.ca.pem", "ssl.ca.certificate.stores", "ssl.crl.location"),
        *("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password"),
        *("ssl.keystore.location", "ssl.keystore.password", "ssl.providers"),
        *("ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list"),
        *("ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification"),
        *("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"),
        *("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
        *("sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"),
        *("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.extensions"),
        *("https.ca.location", "https.ca.pem"),
        *("broker.address.family", "client.dns.lookup", "client.rack", "connections.max.idle.ms"),
        *("socket.keepalive.enable", "socket.connection.setup.timeout.ms"),
        *("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    }
)
_OF_SETTINGS = "say it with kafka_bootstrap"
_OF_RUNS = "the run chooses it, and a retry must find it again"
_OF_TRANSACTIONS = "exactly once rests on it"
_OF_PLANS = "a range is read from where its plan says, and only what is committed"
DECIDED = {
    "bootstrap.servers": _OF_SETTINGS,
    "metadata.broker.list": _OF_SETTINGS,
    "client.id": "it is pipestream in the logs and quotas of every broker",
    "group.id": _OF_RUNS,
    "group.instance.id": "drains join no group: a plan assigns their ranges",
    "transactional.id": _OF_RUNS,
    "transaction.timeout.ms": _OF_TRANSACTIONS,
    "enable.idempotence": _OF_TRANSACTIONS,
    "acks": _OF_TRANSACTIONS,
    "request.required.acks": _OF_TRANSACTIONS,
    "isolation.level": _OF_PLANS,
    "auto.offset.reset": _OF_PLANS,
    "enable.auto.commit": _OF_PLANS,
    "enable.auto.offset.store": _OF_PLANS,
    "enable.partition.eof": _OF_PLANS,
    "partitioner": "records of a document must stay in its partition",
    "message.timeout.ms": "say it with kafka_timeout_s",
}
"""Options that nobody may set, and why."""


def flatten(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return options by their full names, as text.

    In TOML, ``sasl.username = "me"`` without quotes around the name is a table in a table.

    :raises ValueError: a value is neither text, a number, a flag nor a table.
    """
    flat: dict[str, str] = {}
    for key, value in options.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.")
        elif isinstance(value, bool):
            flat[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            flat[name] = str(value)
        else:
            raise ValueError(f"{name} must be text, a number or a flag")  # noqa: TRY004 - what pydantic understands
    return flat


def refuse_unusable(options: Mapping[str, str]) -> None:
    """Check names, and the one value that decides whether a connection is encrypted at all.

    :raises ValueError: some may not be set; each is named with the reason.
    """
    problems = [problem for name, value in options.items() if (problem := _find_problem(name, value))]
    if problems:
        raise ValueError("; ".join(problems))


def _find_problem(name: str, value: str) -> str:
    if name in DECIDED:
        return f"{name} cannot be set: {DECIDED[name]}"
    if name not in _ALLOWED:
        close = difflib.get_close_matches(name, _ALLOWED, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(_ALLOWED))}"
        return f"{name} is not a connection option; {hint}"
    if name == "security.protocol" and value.lower() not in _PROTOCOLS:
        return f"security.protocol must be one of {', '.join(_PROTOCOLS)}"
    return ""
