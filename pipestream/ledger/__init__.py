"""The record of which offset ranges are done, by whom, and what became of them."""

from pipestream.ledger.entries import Entry, EntryKind, Plan, Tally
from pipestream.ledger.ledger import Ledger

__all__ = ["Entry", "EntryKind", "Ledger", "Plan", "Tally"]
