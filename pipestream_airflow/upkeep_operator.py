"""The operator that keeps the ledger quick to read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from pipestream.errors import TerminalError
from pipestream.ledger import Ledger
from pipestream.ledger.upkeep import tidy
from pipestream.settings import load_settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class UpkeepOperator(BaseOperator):
    """Join the ledger's small files, delete those that nobody reads any more, and write a checkpoint.

    Without Spark, so that it works on disk and on S3, and beside runs. Returns what it did to each table.
    """

    ui_color = "#fef3c7"

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002
        try:
            ledger = Ledger(load_settings())
            done = [asdict(tidy(name, table)) for name, table in ledger.delta_tables().items()]
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        if not done:
            self.log.info("there is no ledger yet at %s", ledger.root)
        return done
