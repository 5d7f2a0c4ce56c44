"""Registers Pipestream with Airflow."""

from __future__ import annotations

from importlib.metadata import entry_points

from airflow.plugins_manager import AirflowPlugin

from pipestream_airflow import drain_pool
from pipestream_airflow.web.lazy import LazyApp

URL_PREFIX = "/pipestream"
"""Where Airflow's API server has our API and the files of our page."""


_STATIC = f"{URL_PREFIX.removeprefix('/')}/static"


def _page(name: str, url_route: str, *, top_level: bool = False) -> dict[str, object]:
    """Return the entry of a page. The bundle sets a component on ``globalThis`` under the same name."""
    return {
        "name": name,
        "url_route": url_route,
        # Without a leading slash, so that an Airflow below a path prefix finds them.
        "bundle_url": f"{_STATIC}/main.js",
        "icon": f"{_STATIC}/icons/pipelines.svg",
        "destination": "nav",
        "nav_top_level": top_level,
        "category": None if top_level else "browse",
    }


PAGES = [
    _page("Pipelines", "pipelines", top_level=True),
    _page("Pipeline documents", "pipeline-documents"),
    _page("Pipeline state", "pipeline-state"),
    _page("Pipeline ledger", "pipeline-ledger"),
    _page("Dead letters", "pipeline-dead-letters"),
]
"""The pages in Airflow's navigation; ``web/static/main.js`` has their components."""


class PipestreamPlugin(AirflowPlugin):
    """Keeps the pool of the drains at the size in the settings, and answers below ``/pipestream``."""

    name = "pipestream"
    # Airflow declares these so, as attributes of instances.
    listeners = [drain_pool]  # noqa: RUF012
    fastapi_apps = [{"name": "pipestream", "url_prefix": URL_PREFIX, "app": LazyApp()}]  # noqa: RUF012
    react_apps = PAGES


def is_registered_by_entry_point() -> bool:
    """Return whether the installed package registers the plugin itself, so that ``plugins/`` must not do it again."""
    return any(point.value.startswith(f"{__name__}:") for point in entry_points(group="airflow.plugins"))
