"""Keep protobuf fields that this version does not know across a format that cannot carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message


def carry_unknown_fields(source: Message, target: Message) -> None:
    """Add the unknown fields of ``source`` to ``target``, message by message, where both have the message.

    Elements of lists and maps are left out: only the module knows which of them still belong together.
    """
    bare = type(source)()
    bare.CopyFrom(source)
    for field, _ in source.ListFields():
        bare.ClearField(field.name)
    target.MergeFromString(bare.SerializeToString())
    for field, value in source.ListFields():
        if field.message_type and not field.is_repeated and target.HasField(field.name):
            carry_unknown_fields(value, getattr(target, field.name))
