"""Dead letters: list them, look at them, send them back exactly once, or set them aside."""

from pipestream.dead_letters.action import ActionReport, ActionRequest
from pipestream.dead_letters.browse import (
    Histogram,
    LetterMissing,
    dead_letter_topics,
    find_dead_letter,
    histogram,
    list_dead_letters,
)
from pipestream.dead_letters.decisions import Act, ActionConflict
from pipestream.dead_letters.letter import OPEN_STATES, DeadLetter, Decision, LetterId, Origin, State, read_letter
from pipestream.dead_letters.message import describe, summarize, to_dlq_message
from pipestream.dead_letters.perform import resume_action, run_action
from pipestream.dead_letters.preview import Preview, preview_action
from pipestream.dead_letters.selection import Selection

__all__ = [
    "OPEN_STATES",
    "Act",
    "ActionConflict",
    "ActionReport",
    "ActionRequest",
    "DeadLetter",
    "Decision",
    "Histogram",
    "LetterId",
    "LetterMissing",
    "Origin",
    "Preview",
    "Selection",
    "State",
    "dead_letter_topics",
    "describe",
    "find_dead_letter",
    "histogram",
    "list_dead_letters",
    "preview_action",
    "read_letter",
    "resume_action",
    "run_action",
    "summarize",
    "to_dlq_message",
]
