"""The form that Airflow shows when a person starts a run of a graph's DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Param

from pipestream_airflow.run_params import MODES

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME = r"^(\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?)?$"
"""ISO 8601. The form says `date-time`, so the UI shows a calendar, but Airflow does not check the value."""
OFFSETS = r"^\d+:\d+-\d+$"
MAX_IDS = 10_000
"""Longer lists belong into a time range: Airflow keeps the form's values with the run."""
MAY_BE_EMPTY = ["null", "array"]
"""Airflow's form marks a field that cannot be null as required."""

# In Airflow's form, words in `code` cover the line above them. So names are bold in descriptions.


def form(topics: Sequence[str], budget: int) -> dict[str, Param]:
    """Return the form: each parameter with its default, which is what a scheduled run uses."""
    return {
        "mode": Param(
            "catch_up",
            title="Mode",
            type="string",
            enum=list(MODES),
            description_md="\n".join(f"- **{mode}**: {meaning}" for mode, meaning in MODES.items()),
        ),
        "topics": Param(
            list(topics),
            title="Topics",
            type="array",
            items={"type": "string", "enum": list(topics)},
            examples=list(topics),
            uniqueItems=True,
            description_md="The topics to drain; the others are skipped in this run.",
        ),
        "budget": Param(
            budget,
            title="Budget",
            type="integer",
            minimum=1,
            description_md="Most offsets this run drains from each slot of each topic; a range is drained whole.",
        ),
        "since": _time("Since", "records from this time on; empty: from the topic's beginning"),
        "until": _time("Until", "records before this time; empty: up to when the run was requested"),
        "offsets": Param(
            [],
            title="Offsets",
            type=MAY_BE_EMPTY,
            items={"type": "string", "pattern": OFFSETS},
            uniqueItems=True,
            description_md="**offset_range**: PARTITION:START-END of one intake topic, the end not included.",
        ),
        "doc_ids": _texts("Document ids", "**documents** and **dead_letters**: only these documents."),
        "nodes": _texts("Nodes", r"**dead_letters**: patterns of the nodes that they failed at, such as parse-\*."),
        "errors": _texts("Errors", r"**dead_letters**: patterns of the names of their errors, such as Module\*."),
        "graph_version": Param(
            "now",
            title="Graph version",
            type="string",
            enum=["now", "then"],
            description_md=(
                "Of a range that is drained again: the graph as it is now, or as it was when the records were drained."
            ),
        ),
        "dry_run": Param(
            False,
            title="Dry run",
            type="boolean",
            description_md="Only count what the run would drain, and estimate the seconds. Nothing is changed.",
        ),
        "accept_failures": Param(
            False,
            title="Accept failures",
            type="boolean",
            description_md=(
                "Write dead letters even if most records of a range fail. Otherwise such a run stops, "
                "because the records are then seldom the cause."
            ),
        ),
    }


def _time(title: str, meaning: str) -> Param:
    description = f"**time_range** and **documents**: {meaning}. **dead_letters**: by the time of their last failure."
    return Param(
        None, title=title, type=["null", "string"], format="date-time", pattern=TIME, description_md=description
    )


def _texts(title: str, description: str) -> Param:
    items = {"type": "string", "minLength": 1}
    return Param(
        [], title=title, type=MAY_BE_EMPTY, items=items, uniqueItems=True, maxItems=MAX_IDS, description_md=description
    )
