"""Read what a server has said since the last look."""

from __future__ import annotations

from pathlib import Path

MOST_LINES = 200
"""Lines that one look returns. A server that says more would fill the log of its task."""
_MOST_BYTES = 1_000_000


class LogTail:
    """Follows a file from its present end, or from its beginning if it is empty yet."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = file.stat().st_size if file.is_file() else 0

    def read(self) -> list[str]:
        """Return the complete lines since the last call, at most ``MOST_LINES``; the last ones, if there are more."""
        try:
            with self._file.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:  # it was renamed, and begun again
                    self._offset = 0
                file.seek(max(self._offset, size - _MOST_BYTES))
                data = file.read(size - file.tell())
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset = size - (len(data) - end)
        lines = data[:end].decode(errors="replace").splitlines()
        left_out = len(lines) - MOST_LINES
        return lines if left_out <= 0 else [f"({left_out} lines left out)", *lines[left_out:]]
