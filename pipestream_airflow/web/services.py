"""What the routes work with: settings, stores and read models, opened once per process, each behind a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request

from pipestream.deployment.versions import GraphVersions, VersionMissing
from pipestream.documents.catalogue import Catalogue
from pipestream.graph.model import Graph
from pipestream.leases import LeaseStore, open_lease_store
from pipestream.ledger import Ledger
from pipestream.settings import Settings, load_settings
from pipestream.views.letters import OpenLetters
from pipestream.views.pipelines import Pipelines
from pipestream.views.standing import StandingView
from pipestream.views.totals import DrainTotals
from pipestream_airflow.connections import run_settings
from pipestream_airflow.web.gate import Gate

_COMPARISONS = 2


class Services:
    """Everything that a route may ask. Nothing connects before it is asked."""

    def __init__(self, settings: Settings, variables: Mapping[str, str] | None = None) -> None:
        """:param variables: for processes that are started here: what the settings have from Airflow's connections."""
        # A page waits for less time than a run. Its limits are below the gate's: the client's own error says more.
        patience_s = settings.web_timeout_s
        limits = {name: min(getattr(settings, name), 0.7 * patience_s) for name in ("kafka_timeout_s", "s3_timeout_s")}
        self.settings = settings.model_copy(update=limits)
        self.full_settings = settings
        """For an action, which may take its time."""
        self.variables = variables or {}
        self.versions = GraphVersions(self.settings)
        self.pipelines = Pipelines(self.settings, self.versions)
        self.leases: LeaseStore = open_lease_store(self.settings)
        self.ledger = Ledger(self.settings)
        self.catalogue = Catalogue(self.settings)
        self.standing = StandingView(self.settings, self.leases)
        self.totals = DrainTotals(self.ledger)
        self.letters = OpenLetters(self.settings)
        threads = settings.web_threads
        # Of their own each, so that a hanging Kafka leaves what comes from PostgreSQL and from the ledger.
        self.database = Gate("PostgreSQL", threads, patience_s)
        self.lease_gate = Gate("the lease store", threads, patience_s)
        self.kafka = Gate("Kafka", threads, patience_s)
        self.store = Gate("the ledger or the object store", threads, patience_s)
        advice = (
            "it goes on, so look at what it has done before you repeat it (web_action_s sets how long a page waits)"
        )
        self.actions = Gate("the action", threads, settings.web_action_s, advice=advice)
        # Each is a process of its own, which may use a whole core.
        self.comparisons = Gate("the comparison", _COMPARISONS, settings.web_action_s)

    async def find_active(self, pipeline_id: str) -> Graph:
        """Return the active graph of a pipeline.

        :raises VersionMissing: it was never applied.
        """
        found = await self.database.ask("active", self.pipelines.active)
        if pipeline_id not in found:
            raise VersionMissing(pipeline_id, "that is active")
        return found[pipeline_id].built.graph

    @classmethod
    def open(cls) -> Services:
        """Return services with the settings of this process, and of the Airflow connections that they name."""
        return cls(*run_settings(load_settings().consul_conn_id))


def _find_services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_find_services)]
