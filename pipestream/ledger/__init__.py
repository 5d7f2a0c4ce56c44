"""The record of which offset ranges are done, by whom, and what became of them."""

from pipestream.ledger.ledger import Ledger
from pipestream.ledger.model import Entry, EntryKind, Plan, Tally

__all__ = ["Entry", "EntryKind", "Ledger", "Plan", "Tally"]
