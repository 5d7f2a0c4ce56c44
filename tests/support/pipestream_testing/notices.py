"""A notifier that tests name in the settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.bases.notifier import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context

NOTICES_FILE = "NOTICES_FILE"
"""The variable that names the file."""
NOT_ONE = 5


class FileNotifier(BaseNotifier):
    """Appends each message to a file."""

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Context) -> None:
        with Path(os.environ[NOTICES_FILE]).open("a", encoding="utf-8") as file:
            file.write(f"{context['run_id']}\n{self.text}\n\n")


to_file = FileNotifier(
    "{{ dead_letters.subject }}\n{{ dead_letters.fingerprints | join(' ') }}\n{{ dead_letters.link }}"
)
