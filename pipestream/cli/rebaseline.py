"""``pipestream ledger rebaseline``: move a topic's heads by hand."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from pipestream.cli.options import GraphOption, JsonOption, read_settings
from pipestream.cli.output import emit_json, say
from pipestream.user import user_name


def rebaseline(
    graph: GraphOption,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic whose heads move.")],
    to: Annotated[
        str | None,
        typer.Option(help="earliest, latest, an ISO time with its zone, or a duration such as PT6H back from now."),
    ] = None,
    offset: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="One partition's head; may be repeated.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Move the heads: records may be given up, or drained again.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Set where the next run continues, and record it. Use it after records expired or a topic was created again.

    Moving a head forward gives up the records in between; moving it back drains them again.
    """
    from pipestream.drain.rebaseline import rebaseline as move
    from pipestream.graph.load import load_graph
    from pipestream.leases import open_lease_store

    if (to is None) == (not offset):
        raise typer.BadParameter("say where to: --to PLACE, or --offset PARTITION:OFFSET")
    if not yes:
        raise typer.BadParameter("this gives up records or drains them again; repeat with --yes to do it")
    settings = read_settings()
    target = to if to is not None else _parse(offset or [])
    with closing(open_lease_store(settings)) as leases:
        moved = move(settings, load_graph(graph), topic, target, by=user_name(), leases=leases)
    if json:
        from pipestream.views.ledger import entry_values

        emit_json([entry_values(entry) for entry in moved])
        return
    for entry in moved:
        say(f"{topic}[{entry.range.partition}]: head moved from {entry.range.start} to {entry.range.end}")


def _parse(texts: list[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in texts:
        partition, _, offset = text.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise typer.BadParameter(f"{text!r} is not PARTITION:OFFSET, such as 0:1200")
        found[int(partition)] = int(offset)
    return found
