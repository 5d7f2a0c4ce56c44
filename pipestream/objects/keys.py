"""Which text can be the key of an object."""

from __future__ import annotations

from pipestream.errors import IdInvalid
from pipestream.ids import check_key_part

# S3's own limit; every part has at most 200 characters, so this bounds the number of parts.
_MAX_KEY_LENGTH = 1_024


def check_key(key: str) -> str:
    """Return ``key`` if it can name an object: relative, no empty part, no part that climbs out of the store.

    :raises IdInvalid: it cannot.
    """
    if len(key) > _MAX_KEY_LENGTH:
        raise IdInvalid(f"object key of {len(key)} characters; at most {_MAX_KEY_LENGTH} are allowed")
    for part in key.split("/"):
        check_key_part(part, f"in the object key {key!r}, the part")
    return key
