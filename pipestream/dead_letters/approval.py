"""Which actions on dead letters are so large that somebody else should look at them first."""

from __future__ import annotations

from collections.abc import Sequence

from pipestream.dead_letters.action import ActionRequest
from pipestream.dead_letters.decisions import Act
from pipestream.dead_letters.log import DecisionLog
from pipestream.dead_letters.preview import Preview, preview_action
from pipestream.errors import TerminalError
from pipestream.graph.model import Graph
from pipestream.ids import approval_dag_id
from pipestream.settings import Settings


class ApprovalNeeded(TerminalError):
    """A replay is larger than what may be replayed without an approval."""

    def __init__(self, count: int, limit: int, graph_id: str) -> None:
        self.count = count
        self.limit = limit
        self.dag_id = approval_dag_id(graph_id)
        super().__init__(
            f"{count} dead letters would be replayed at once, and more than {limit} need an approval (the setting "
            f"approval_letters): start the DAG {self.dag_id} with the action replay, or use narrower filters"
        )


def needs_approval(act: Act, preview: Preview, settings: Settings) -> bool:
    """Tell whether an action replays more letters than may be replayed without an approval. Pure."""
    return act is Act.REPLAY and preview.decided.total() > settings.approval_letters


def check_replay(request: ActionRequest, settings: Settings, graphs: Sequence[Graph], graph_id: str) -> None:
    """Refuse a replay that needs an approval. One that was planned before may be resumed.

    :param graph_id: the graph whose approval DAG the error names.
    :raises ApprovalNeeded: it would replay too many letters.
    """
    if request.act is not Act.REPLAY:
        return
    preview = preview_action(request, settings, graphs)
    if not needs_approval(request.act, preview, settings):
        return
    if request.action_id not in DecisionLog(settings).read().plans:
        raise ApprovalNeeded(preview.decided.total(), settings.approval_letters, graph_id)
