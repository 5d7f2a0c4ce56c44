"""What a person may choose for one run of a graph's DAG: the form, and what was filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MODES: dict[str, str] = {
    "catch_up": "Drain what waits in each topic, from where the last run ended.",
}
"""The modes that a run may have, and what each does. The only list of them."""


@dataclass(frozen=True, slots=True)
class RunParams:
    """The filled-in form of one run."""

    mode: str
    topics: frozenset[str]
    budget: int
    accept_failures: bool

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> RunParams:
        """Take the parameters out of a task's context; Airflow has checked them against the form."""
        return cls(
            mode=params["mode"],
            topics=frozenset(params["topics"]),
            budget=params["budget"],
            accept_failures=params["accept_failures"],
        )

    def arguments(self) -> list[str]:
        """Return what the drain job is told of this."""
        return ["--budget", str(self.budget), *(["--accept-failures"] if self.accept_failures else [])]


def form(topics: Sequence[str], budget: int) -> dict[str, Param]:
    """Return the form: each parameter with its default, which is what a scheduled run uses."""
    return {
        "mode": Param(
            "catch_up",
            title="Mode",
            type="string",
            enum=sorted(MODES),
            description_md="\n".join(f"- `{mode}`: {MODES[mode]}" for mode in sorted(MODES)),
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
            description_md="Most offsets this run drains from each topic.",
        ),
        "accept_failures": Param(
            False,
            title="Accept failures",
            type="boolean",
            description_md=(
                "Write dead letters even if most records of a range fail. Otherwise such a run stops, "
                "because then the records are seldom the cause."
            ),
        ),
    }
