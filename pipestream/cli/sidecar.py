"""``pipestream sidecar``: drain topics all the time without Spark, and manage a sidecar that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pipestream.cli.options import JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, say, show_table

if TYPE_CHECKING:
    from pipestream.sidecar.serve import Ready

_ANSWER_S = 5.0

AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Where the sidecar is managed; the setting sidecar_address unless given."
    ),
]
TopicArgument = Annotated[str, typer.Argument(help="The topic.")]


class _RunUnlessTold(TyperGroup):
    """Treats ``sidecar`` and ``sidecar --option`` as ``sidecar run …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(cls=_RunUnlessTold)
    group.command(
        name="run",
        epilog=examples(
            "pipestream sidecar",
            "pipestream sidecar --max-leases 4 --address 127.0.0.1:0 --telemetry-port 0",
            "pipestream sidecar run --engine 127.0.0.1:50051",
        ),
    )(run)
    group.command(name="leases", epilog=examples("pipestream sidecar leases", "pipestream sidecar leases --json"))(
        show_leases
    )
    group.command(name="pause", epilog=examples("pipestream sidecar pause intake.sample-files"))(pause)
    group.command(name="resume", epilog=examples("pipestream sidecar resume intake.sample-files"))(resume)
    group.command(
        name="config",
        epilog=examples("pipestream sidecar config", "pipestream sidecar config main --max-poll-records 500"),
    )(config)
    app.add_typer(group, name="sidecar", help="Drain topics all the time without Spark; see and steer a sidecar.")


def run(
    engine: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Hand the documents to this engine instead of processing them here."),
    ] = "",
    max_leases: Annotated[
        int | None, typer.Option(min=1, help="Slots to hold at most; the setting sidecar_max_leases unless given.")
    ] = None,
    address: AddressOption = None,
    telemetry_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Port of /metrics and /health; 0 takes a free one. A setting unless given."
        ),
    ] = None,
) -> None:
    """Drain every topic in streaming mode, as its documents arrive, until SIGTERM or Ctrl-C.

    Several sidecars share the topics: each takes a fair share of the slots, and takes over from one that dies. It ends
    at the end of a chunk, with everything recorded and its leases given back.
    """
    from pipestream.sidecar.serve import SidecarOptions, run_sidecar
    from pipestream.telemetry.logs import setup_logging

    settings = read_settings()
    setup_logging(settings)
    options = SidecarOptions(
        address or settings.sidecar_address,
        settings.sidecar_telemetry_port if telemetry_port is None else telemetry_port,
        engine,
        max_leases,
    )
    run_sidecar(settings, options, lambda ready: _tell_ready(ready, options.address))


def _tell_ready(ready: Ready, address: str) -> None:
    host = address.rpartition(":")[0]
    say(f"sidecar {ready.name} is ready: managed at {host}:{ready.port}, /metrics and /health at {ready.telemetry}")


def show_leases(address: AddressOption = None, json: JsonOption = False) -> None:
    """Show the slots that a sidecar holds: offset, ACTIVE, PAUSED or ERROR, and how often it failed."""
    from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2 import GetLeasesRequest

    with _calling(address) as call:
        found = call("GetLeases", GetLeasesRequest()).leases
    names = ("topic", "type", "current_offset", "status", "retry_count", "cluster_id", "consumer_group")
    rows = [{name: getattr(lease, name) for name in names} for lease in found]
    if json:
        emit_json(rows)
    elif not rows:
        say("the sidecar holds no lease: `pipestream leases` shows who drains what, and in which mode topics are")
    else:
        columns = ["topic", "type", "offset", "status", "failures", "cluster", "consumer group"]
        show_table(columns, [list(row.values()) for row in rows], numbers=["offset", "failures"], fold=["topic"])


def pause(topic: TopicArgument, address: AddressOption = None) -> None:
    """Stop draining a topic in a sidecar. It keeps the leases, so that nobody else drains the topic."""
    from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2 import PauseConsumptionRequest

    _change(address, "PauseConsumption", PauseConsumptionRequest(topic=topic))


def resume(topic: TopicArgument, address: AddressOption = None) -> None:
    """Drain a paused topic again."""
    from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2 import ResumeConsumptionRequest

    _change(address, "ResumeConsumption", ResumeConsumptionRequest(topic=topic))


def config(
    cluster: Annotated[str, typer.Argument(help="Only this cluster; needed for a change.")] = "",
    max_poll_records: Annotated[
        int | None,
        typer.Option(min=0, help="The most records of one Kafka transaction of this cluster; 0 sets the default."),
    ] = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Show or change how the topics of a cluster are consumed. A sidecar forgets a change when it ends."""
    from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2 import (
        GetConsumerConfigRequest,
        SetConsumerConfigRequest,
    )

    if max_poll_records is not None:
        if not cluster:
            raise typer.BadParameter("name the cluster whose topics are to be consumed so")
        _change(
            address,
            "SetConsumerConfig",
            SetConsumerConfigRequest(cluster_id=cluster, max_poll_records=max_poll_records),
        )
        return
    with _calling(address) as call:
        found = call("GetConsumerConfig", GetConsumerConfigRequest(cluster_id=cluster)).configs
    names = ("cluster_id", "consumer_group", "max_poll_records", "topics", "in_flight_count")
    rows = [{name: getattr(each, name) for name in names} | {"topics": list(each.topics)} for each in found]
    if json:
        emit_json(rows)
    else:
        shown = [list((row | {"topics": ", ".join(row["topics"])}).values()) for row in rows]
        show_table(["cluster", "consumer group", "records", "topics", "in flight"], shown, fold=["topics"])


def _change(address: str | None, method: str, request: Any) -> None:
    from pipestream.errors import RequestInvalid

    with _calling(address) as call:
        answer = call(method, request)
    if not answer.success:
        raise RequestInvalid(answer.message)
    say(answer.message)


@contextmanager
def _calling(address: str | None) -> Iterator[Callable[[str, Any], Any]]:
    """Give what calls a method of a sidecar.

    :raises SidecarUnavailable: it does not answer.
    """
    import grpc

    from pipestream.errors import SidecarUnavailable
    from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2_grpc import SidecarManagementServiceStub
    from pipestream.rpc.channels import open_channel
    from pipestream.rpc.security import channel_security

    settings = read_settings()
    target = address or settings.sidecar_address
    channel = open_channel(target, channel_security(settings))
    stub: Any = SidecarManagementServiceStub(channel)  # type: ignore[no-untyped-call]

    def call(method: str, request: Any) -> Any:
        try:
            # Waits for a connection: on a busy machine the first attempt may take too long.
            return getattr(stub, method)(request, timeout=_ANSWER_S, wait_for_ready=True)
        except grpc.RpcError as error:
            raise SidecarUnavailable(target, error.code().name, error.details() or "") from None

    try:
        yield call
    finally:
        channel.close()
