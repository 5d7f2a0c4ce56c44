"""The accepted log: calls that are accepted together, in one Kafka transaction with a record of their keys.

A caller that repeats a key gets the first answer, also after the process that gave it was killed.
"""

from pipestream.accepted.slot import AcceptedSlot
from pipestream.accepted.submission import Submission, content_digest, slot_of
from pipestream.accepted.topic import accepted_topic

__all__ = ["AcceptedSlot", "Submission", "accepted_topic", "content_digest", "slot_of"]
