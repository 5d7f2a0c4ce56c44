"""Stop a drain of which most records fail, before it fills the dead letters."""

from __future__ import annotations

import threading

from pipestream.drain.chunk import ChunkResult
from pipestream.drain.range_task import RangeTask
from pipestream.errors import RangeMostlyFailing
from pipestream.settings import Settings


class Judge:
    """Counts the records of a task that fail. Stages of the task may ask it from several threads."""

    def __init__(self, task: RangeTask, settings: Settings, judged_records: int | None = None) -> None:
        """
        :param judged_records: over how many records to judge; over all, unless given.
        """
        self._task = task
        self._settings = settings
        self._judged_records = judged_records
        self._guard = threading.Lock()
        self._seen = 0
        self._failed = 0

    def count(self, result: ChunkResult) -> None:
        """Count a chunk that is processed.

        :raises RangeMostlyFailing: too many of the records so far have failed.
        """
        with self._guard:
            if self._judged_records is not None and self._seen >= self._judged_records:
                self._seen = self._failed = 0  # a stream runs for months: what fails now is what matters
            self._seen += len(result)
            self._failed += result.failed
            self._refuse_if_mostly_failing(result)

    def count_given_up(self, result: ChunkResult) -> None:
        """Count one more failure in a chunk that was counted before.

        :raises RangeMostlyFailing: too many of the records so far have failed.
        """
        with self._guard:
            self._failed += 1
            self._refuse_if_mostly_failing(result)

    def _refuse_if_mostly_failing(self, result: ChunkResult) -> None:
        if self._task.accept_failures or self._seen < self._settings.failing_minimum:
            return
        if self._failed > self._settings.failing_share * self._seen:
            ranges = ", ".join(map(str, self._task.ranges))
            raise RangeMostlyFailing(ranges, self._failed, self._seen, result.last_error)
