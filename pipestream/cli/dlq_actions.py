"""``pipestream dlq replay``, ``quarantine``, ``release``, ``purge`` and ``resume``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipestream.cli.dlq_options import Scope, takes_scope
from pipestream.cli.dlq_report import tell_preview, tell_report
from pipestream.cli.options import GraphsOption, JsonOption, examples, read_graphs, read_settings
from pipestream.cli.output import note
from pipestream.ids import new_run_id
from pipestream.user import user_name

ActionOption = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="ID",
        help="Names the action; a repeat of the command under it continues where it stopped. Generated if not given.",
    ),
]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Most letters to act on, oldest first.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and to which letters.")]


def add_to(group: typer.Typer) -> None:
    group.command(
        epilog=examples(
            "pipestream dlq replay --node parse-data --error ModuleFailed --dry-run",
            "pipestream dlq replay --topic dlq.main.parse-data --action after-the-fix",
        )
    )(replay)
    group.command(
        epilog=examples(
            "pipestream dlq quarantine --letter dlq.main.parse-data/0/17", "pipestream dlq quarantine --doc-id d1"
        )
    )(quarantine)
    group.command(epilog=examples("pipestream dlq release --letter dlq.main.parse-data/0/17"))(release)
    group.command(
        epilog=examples(
            "pipestream dlq purge --until 2026-01-01T00:00:00Z", "pipestream dlq purge --error RecordInvalid --yes"
        )
    )(purge)
    group.command(epilog=examples("pipestream dlq history", "pipestream dlq resume after-the-fix"))(resume)


@takes_scope
def replay(
    scope: Scope,
    limit: LimitOption = None,
    # A test compares it with the default of the action itself, whose import takes too long for a help text.
    max_replays: Annotated[
        int,
        typer.Option(min=0, help="Quarantine letters that were replayed this often, instead of replaying them again."),
    ] = 3,
    action: ActionOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Send open dead letters back to the topic they came from, each exactly once.

    The next drain of that topic processes them. Letters that were replayed too often go to quarantine instead.
    """
    _act("replay", scope, action_id=action, limit=limit, max_replays=max_replays, dry_run=dry_run, json=json)


@takes_scope
def quarantine(
    scope: Scope,
    limit: LimitOption = None,
    action: ActionOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Set open dead letters aside. Lists and replays skip them until they are released."""
    _act("quarantine", scope, action_id=action, limit=limit, dry_run=dry_run, json=json)


@takes_scope
def release(
    scope: Scope,
    limit: LimitOption = None,
    action: ActionOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Open quarantined and purged dead letters again. They may then be replayed again, whatever --max-replays says."""
    _act("release", scope, action_id=action, limit=limit, dry_run=dry_run, json=json)


@takes_scope
def purge(
    scope: Scope,
    limit: LimitOption = None,
    action: ActionOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Purge them; without it, only show what would be done.")] = False,
    json: JsonOption = False,
) -> None:
    """Give up open and quarantined dead letters: they are no longer shown, and never replayed.

    Kafka keeps the records until the topic's retention ends, so `dlq release` can bring them back until then.
    """
    _act("purge", scope, action_id=action, limit=limit, dry_run=not yes, json=json)
    if not yes:
        note("nothing was purged; add --yes to do it", style="yellow")
        raise typer.Exit(2)


def resume(
    action_id: Annotated[str, typer.Argument(metavar="ID", help="The action's id, as `dlq history` shows it.")],
    graph: GraphsOption = None,
    json: JsonOption = False,
) -> None:
    """Resume an interrupted replay, quarantine, release or purge.

    It covers only the letters that were there when it was planned. For a finished action it does nothing.
    """
    from pipestream.dead_letters import resume_action

    settings = read_settings()
    has_graphs = graph or settings.graphs_folder.is_dir()
    graphs = read_graphs(settings, graph) if has_graphs else []
    tell_report(resume_action(action_id, settings, graphs), json=json)


def _act(
    act: str,
    scope: Scope,
    *,
    action_id: str | None,
    limit: int | None,
    dry_run: bool,
    json: bool,
    max_replays: int | None = None,
) -> None:
    from pipestream.dead_letters import Act, ActionRequest, preview_action, run_action

    request = ActionRequest(
        act=Act(act),
        action_id=action_id or new_run_id(act),
        topics=scope.topics,
        selection=scope.selection,
        limit=limit,
        by=user_name(),
        **({} if max_replays is None else {"max_replays": max_replays}),
    )
    if dry_run:
        tell_preview(act, preview_action(request, scope.settings, scope.graphs), json=json)
        return
    note(f"if this is interrupted, continue with: pipestream dlq resume {request.action_id}")
    tell_report(run_action(request, scope.settings, scope.graphs), json=json)
