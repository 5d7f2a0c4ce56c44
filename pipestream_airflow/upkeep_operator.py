"""The operators that keep the ledger fast to read, and delete documents that have expired."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from pipestream.errors import TerminalError
from pipestream.ledger import Ledger
from pipestream.ledger.upkeep import tidy
from pipestream.retention.expire import DEFAULT_GRACE, expire_documents
from pipestream_airflow.connections import run_settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class UpkeepOperator(BaseOperator):
    """Join the ledger's small files, delete those that nobody reads any more, and write a checkpoint.

    It does not use Spark, so it works on disk and on S3. Runs may continue meanwhile. Returns what it did per table.
    """

    ui_color = "#fef3c7"

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002
        try:
            ledger = Ledger(run_settings()[0])
            done = [asdict(tidy(name, table)) for name, table in ledger.delta_tables().items()]
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        if not done:
            self.log.info("there is no ledger yet at %s", ledger.root)
        return done


class ExpireOperator(BaseOperator):
    """Delete documents that are older than their graph keeps them and that no record in Kafka refers to.

    An object is deleted when two runs, at least the grace period apart, found it unreferenced. Drains, replays and
    backfills can continue meanwhile. Returns what was found and deleted.

    :param grace_hours: the grace period; at least 1.
    """

    ui_color = "#fef3c7"

    def __init__(self, *, grace_hours: float = DEFAULT_GRACE / timedelta(hours=1), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grace_hours = grace_hours

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        grace = timedelta(hours=self.grace_hours)
        try:
            return asdict(expire_documents(run_settings()[0], datetime.now(UTC), grace=grace))
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
