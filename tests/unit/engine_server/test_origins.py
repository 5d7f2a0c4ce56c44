from __future__ import annotations

from unittest.mock import sentinel

from pipestream.accepted import content_digest
from pipestream.engine_server.desk import Keyed


def keyed(key, content=b"a document"):
    return Keyed(sentinel.slot, key, content_digest(content))


def test_a_repeat_has_the_origin_of_the_first_call():
    assert keyed("k").origin() == keyed("k").origin()


def test_a_key_that_comes_again_with_other_content_has_another_origin():
    """Its window is over by then, but the objects of the first document may still be needed."""
    assert keyed("k").origin() != keyed("k", b"another document").origin()


def test_calls_without_a_key_have_origins_of_their_own():
    call = keyed("")
    assert len({call.origin(), call.origin(), keyed("").origin()}) == 3
