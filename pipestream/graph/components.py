"""Strongly connected components, without recursion: a graph may be a chain of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Key = TypeVar("Key")


def strong_components(keys: Sequence[Key], successors: Callable[[Key], Iterable[Key]]) -> list[list[Key]]:
    """Return the strongly connected components, successors before predecessors (Tarjan).

    Deterministic: it follows the order of ``keys`` and of the successors.
    """
    index: dict[Key, int] = {}
    low: dict[Key, int] = {}
    stack: list[Key] = []
    on_stack: set[Key] = set()
    found: list[list[Key]] = []
    for root in keys:
        if root in index:
            continue
        work = [(root, iter(successors(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            key, waiting = work[-1]
            for successor in waiting:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(successors(successor))))
                    break
                if successor in on_stack:
                    low[key] = min(low[key], index[successor])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[key])
                if low[key] == index[key]:
                    found.append(_take_component(key, stack, on_stack))
    return found


def _take_component(root: Key, stack: list[Key], on_stack: set[Key]) -> list[Key]:
    component: list[Key] = []
    while not component or component[-1] != root:
        key = stack.pop()
        on_stack.discard(key)
        component.append(key)
    return component[::-1]
