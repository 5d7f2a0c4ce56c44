"""Calls Airflow's notifiers about the dead letters of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.sdk.bases.notifier import BaseNotifier

from pipestream.errors import SettingsInvalid

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pipestream.settings import Settings
    from pipestream.views.letter_notice import LetterNotice

log = logging.getLogger(__name__)

Notify: TypeAlias = "Callable[[Context], Any]"
"""A notifier of Airflow, or any callback that takes a context, as Airflow's own callbacks do."""
OnDeadLetters: TypeAlias = "Notify | Sequence[Notify] | None"

CONTEXT_KEY = "dead_letters"
"""Where notifiers find the notice: as ``{{ dead_letters.message }}`` in their templates, or in the context."""


def find_notifiers(given: OnDeadLetters, settings: Settings) -> list[Notify]:
    """Return those that are given, or else the one that the settings name.

    :raises SettingsInvalid: the settings name something that is not a notifier.
    """
    if given is not None:
        return list(given) if isinstance(given, Sequence) else [given]
    if not settings.dead_letter_notifier:
        return []
    module, _, name = settings.dead_letter_notifier.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsInvalid(
            f"dead_letter_notifier is {settings.dead_letter_notifier!r}, which cannot be imported: {error}"
        ) from error
    notifiers = list(found) if isinstance(found, Sequence) else [found]
    made = [each() if isinstance(each, type) and issubclass(each, BaseNotifier) else each for each in notifiers]
    if not made or not all(callable(each) for each in made):
        raise SettingsInvalid(
            f"dead_letter_notifier is {settings.dead_letter_notifier!r}, which is neither a notifier nor a list of them"
        )
    return made


def notify(notifiers: Sequence[Notify], context: Context, notice: LetterNotice) -> None:
    """Call each notifier once. One that fails is logged: a retry could repeat a message that was sent."""
    for notifier in notifiers:
        try:
            told: Any = dict(context) | {CONTEXT_KEY: notice}
            # A copy: rendering its templates changes a notifier for good.
            deepcopy(notifier)(told)
        except Exception:
            log.exception("%s failed; nobody may have been told of: %s", type(notifier).__name__, notice.subject)
