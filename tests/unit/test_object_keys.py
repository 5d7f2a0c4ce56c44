from __future__ import annotations

import pytest

from pipestream.errors import IdInvalid
from pipestream.ids import check_key


@pytest.mark.parametrize("key", ["", "/etc/passwd", "a//b", "a/", "a/../b", "./a", "a/.b", "a\\..\\b", "a/b\0c", "a b"])
def test_keys_that_could_climb_out_of_a_store_are_refused(key):
    with pytest.raises(IdInvalid):
        check_key(key)


def test_a_key_of_more_than_a_kilobyte_is_refused():
    with pytest.raises(IdInvalid, match="at most 1024"):
        check_key("/".join(["x" * 100] * 11))
