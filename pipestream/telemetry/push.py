"""Tell Prometheus about a batch run, which ends before anybody scrapes it: through a Pushgateway."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from http.client import HTTPException
from urllib.parse import unquote

from prometheus_client import CollectorRegistry, Gauge, pushadd_to_gateway
from prometheus_client.exposition import basic_auth_handler, default_handler

from pipestream.settings import Settings
from pipestream.urls import printable_url, split_login

log = logging.getLogger(__name__)

_TIMEOUT_S = 5.0


def push_run(
    settings: Settings, graph_id: str, topic: str, values: Mapping[str, float], ways: Mapping[str, int]
) -> None:
    """Send what the last run of a topic did. Does nothing without a gateway; never fails a run.

    :param values: by name, such as ``records`` and ``seconds``.
    :param ways: documents that left, by edge or end.
    """
    if not settings.metrics_push_url:
        return
    registry = CollectorRegistry()
    for name, value in values.items():
        help_ = f"{name.replace('_', ' ').capitalize()} of the last run of a topic."
        Gauge(f"pipestream_last_run_{name}", help_, registry=registry).set(value)
    out = Gauge("pipestream_last_run_documents_out", "Documents of the last run, by way.", ["way"], registry=registry)
    for way, count in ways.items():
        out.labels(way).set(count)
    Gauge("pipestream_last_run_timestamp_seconds", "When it ended.", registry=registry).set_to_current_time()
    login, gateway = split_login(settings.metrics_push_url)
    user, _, password = (unquote(part) for part in login.partition(":"))
    try:
        pushadd_to_gateway(
            gateway,
            job="pipestream",
            registry=registry,
            grouping_key={"graph": graph_id, "topic": topic},
            timeout=_TIMEOUT_S,
            handler=partial(basic_auth_handler, username=user, password=password) if login else default_handler,
        )
    except (OSError, HTTPException, ValueError) as error:
        log.warning("the metrics of the run were not taken by %s: %s", printable_url(gateway), error)
