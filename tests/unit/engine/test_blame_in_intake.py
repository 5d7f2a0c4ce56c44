from __future__ import annotations

import pytest

from pipestream.engine.intake import _blame
from pipestream.errors import RecordInvalid, StoreUnavailable


def test_an_error_of_a_record_is_that_records():
    error = RecordInvalid("not a PipeStream")

    assert _blame(error) is error


def test_an_error_that_concerns_more_than_a_record_is_not_blamed_on_one():
    with pytest.raises(StoreUnavailable):
        _blame(StoreUnavailable("no answer"))
