"""Options of ``pipestream dlq``, and the values made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestream.cli.options import GraphsOption, SinceOption, UntilOption, read_graphs, read_settings
from pipestream.cli.output import note

if TYPE_CHECKING:
    from pipestream.dead_letters import Selection
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

LetterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--letter", metavar="TOPIC/PARTITION/OFFSET", help="Only this letter, as `dlq list` shows it; may be repeated."
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", help="Only this dead-letter topic; may be repeated. All of the graphs' unless given."
    ),
]
NodeOption = Annotated[list[str] | None, typer.Option("--node", help="Only letters of this node; * and ? match.")]
ErrorOption = Annotated[
    list[str] | None, typer.Option("--error", help="Only errors of this kind, such as ModuleFailed; * and ? match.")
]
DocOption = Annotated[list[str] | None, typer.Option("--doc-id", help="Only this document; may be repeated.")]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look, and for what."""

    settings: Settings
    topics: tuple[str, ...]
    selection: Selection
    graphs: tuple[Graph, ...]


def read_scope(
    graph: GraphsOption = None,
    topic: TopicsOption = None,
    node: NodeOption = None,
    error: ErrorOption = None,
    doc_id: DocOption = None,
    letter: LetterOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
) -> Scope:
    """Return what the options that choose letters mean. They are declared here, for every command.

    :raises IdInvalid: a letter's id is not TOPIC/PARTITION/OFFSET.
    :raises GraphInvalid: a graph cannot be read.
    """
    from pipestream.dead_letters import LetterId, Selection, dead_letter_topics

    settings = read_settings()
    named = tuple(LetterId.parse(text) for text in letter or ())
    # Topics that are named need no graph; a graph still tells where their letters go back to.
    is_named = bool(topic or named) and not graph and not settings.graphs_folder.is_dir()
    graphs = () if is_named else tuple(read_graphs(settings, graph))
    topics = topic or sorted({each.topic for each in named}) or dead_letter_topics(graphs, settings)
    if not topics:
        raise typer.BadParameter("the graphs have no dead-letter topics; name one with --topic")
    _warn_of_unknown_nodes(node or [], graphs)
    selection = Selection(
        nodes=tuple(node or ()),
        errors=tuple(error or ()),
        doc_ids=tuple(doc_id or ()),
        letters=named,
        since=since,
        until=until,
    )
    return Scope(settings, tuple(dict.fromkeys(topics)), selection, graphs)


def _warn_of_unknown_nodes(patterns: list[str], graphs: tuple[Graph, ...]) -> None:
    """Say which patterns match no node. Letters may be of a node that its graph no longer has, so none is refused."""
    known = sorted({node.node_id for graph in graphs for node in graph.nodes})
    for pattern in patterns if known else []:
        if not any(fnmatchcase(node_id, pattern) for node_id in known):
            note(f"no node matches {pattern!r}; the graphs have {', '.join(known)}", style="yellow")


def takes_scope(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ``read_scope`` before its own, and the scope as its first argument."""
    scope_options = signature(read_scope, eval_str=True).parameters
    _, *own_options = signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def with_options(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in scope_options}
        command(read_scope(**chosen), **values)

    # What Typer makes the command's options of.
    with_options.__signature__ = Signature([*scope_options.values(), *own_options])  # type: ignore[attr-defined]
    return with_options
