"""Call a module once for both graphs, where both would ask it the same.

This halves the calls. It also keeps a module that answers differently each time, such as one that adds a time stamp,
from looking like an effect of the change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipestream.errors import TerminalError
from pipestream.modules.module import Answer, profile_of
from pipestream.modules.resolve import IdentityModule
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipestream.engine.process import Services
    from pipestream.graph.model import Graph, Node
    from pipestream.modules.module import Module, ModuleContext, ModuleProfile

_Question = tuple[str, str, int, bytes]


class Answers:
    """What modules have answered about the documents of one record. Used by one thread."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self._unchanged = {
            node.node_id for node in before.nodes if after.node_by_id.get(node.node_id) == node and node.module
        }
        self._kept: dict[_Question, Answer | TerminalError] = {}

    def forget(self) -> None:
        """Begin another record."""
        self._kept.clear()

    def watch(self, services: Services, side: str) -> Services:
        """Return services whose modules share their answers.

        :param side: which graph they are for. A changed node gets it in its idempotency keys, because a module may
            answer a repeated key without looking at its new configuration.
        """

        def module_of(node: Node) -> Module:
            module = services.module_of(node)
            if isinstance(module, IdentityModule):
                return module
            return _AskedOnce(module, self._kept if node.node_id in self._unchanged else None, side)

        return replace(services, module_of=module_of)


class _AskedOnce:
    """A module that answers a question which was asked before from what it answered then."""

    def __init__(self, module: Module, kept: dict[_Question, Answer | TerminalError] | None, side: str) -> None:
        self._module = module
        self._kept = kept
        self._side = side

    def process(self, document: PipeDoc, context: ModuleContext) -> Answer:
        if self._kept is None:
            key = f"compare/{self._side}/{context.idempotency_key}"
            return _as_answer(self._module.process(document, replace(context, idempotency_key=key)))
        # Before the call: a module may change the document that it is given.
        question = (context.node_id, context.stream_id, context.hop, document.SerializeToString(deterministic=True))
        known = self._kept.get(question)
        if known is None:
            try:
                known = _as_answer(self._module.process(document, context))
            except TerminalError as error:
                known = error
            self._kept[question] = known
        if isinstance(known, TerminalError):
            raise known
        return replace(known, documents=[_copy(each) for each in known.documents])

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:
        return profile_of(self._module, context)

    def close(self) -> None:
        """Whoever opened the module closes it."""


def _as_answer(answered: Sequence[PipeDoc] | Answer) -> Answer:
    return answered if isinstance(answered, Answer) else Answer(answered)


def _copy(document: PipeDoc) -> PipeDoc:
    copy = PipeDoc()
    copy.CopyFrom(document)
    return copy
