"""The memory of a connector in a dictionary, for tests without a database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipestream.connectors.connector import Found, Seen


class Remembered:
    """Keeps states as the database does, by way of JSON."""

    def __init__(self) -> None:
        self.states: dict[str, Mapping[str, Any]] = {}

    def recall(self, items: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return {item: self.states[item] for item in items if item in self.states}

    def keep(self, found: list[Found]) -> list[Found]:
        self.states |= {each.item: json.loads(json.dumps(each.state)) for each in found if isinstance(each, Seen)}
        return found
