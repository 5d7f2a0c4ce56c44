"""A server of the product by real connections: statuses, health, reflection, limits, TLS, token, graceful stop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client import REGISTRY

from pipestream.errors import BrokerUnavailable, DocumentMissing, GraphInvalid, Problem
from pipestream.rpc.channels import open_aio_channel, open_channel
from pipestream.rpc.gate import FORWARDED
from pipestream.rpc.in_flight_bytes import InFlightBytes, StreamBytes
from pipestream.rpc.security import ChannelSecurity, ServerSecurity
from pipestream.rpc.server import RpcServer, ServerOptions
from pipestream.rpc.status import ERROR_CODE
from pipestream.telemetry.health import Health
from pipestream_testing.certificates import Authority

NAME = "test.Answers"
Code = grpc.StatusCode


class Answers:
    """Answers with the request's own text, raises what it names, or waits until it is told to answer."""

    def __init__(self):
        self.go_on = asyncio.Event()
        self.waiting = asyncio.Event()

    async def say(self, request, _context):
        match request.value:
            case "missing":
                raise DocumentMissing("object x is not there")
            case "gone":
                raise BrokerUnavailable("no broker")
            case "graph":
                raise GraphInvalid([Problem("g", None, "nodes", "wrong")])
            case "late":
                raise TimeoutError
            case "bug":
                raise KeyError("a secret")
            case value if value.startswith("wait"):
                self.waiting.set()
                await self.go_on.wait()
        return request

    async def each(self, requests, context):
        async for request in requests:
            yield await self.say(request, context)

    def register(self, _servicer, server):
        read, write = StringValue.FromString, StringValue.SerializeToString
        handlers = {
            "Say": grpc.unary_unary_rpc_method_handler(self.say, read, write),
            "Each": grpc.stream_stream_rpc_method_handler(self.each, read, write),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))


@asynccontextmanager
async def serving(security=None, **options):
    answers = Answers()
    given = {"address": "127.0.0.1:0", "max_calls": 4, "max_message_bytes": 100_000, "stop_s": 60}
    given |= {"max_in_flight_bytes": 1_000_000, **options}
    server = RpcServer(ServerOptions(**given, security=security or ServerSecurity()))
    server.add(answers.register, answers, NAME)
    port = await server.start()
    await server.set_serving(True)
    try:
        yield server, answers, f"127.0.0.1:{port}"
    finally:
        answers.go_on.set()
        await server.stop()


def say(channel, **how):
    return channel.unary_unary(f"/{NAME}/Say", StringValue.SerializeToString, StringValue.FromString, **how)


def each(channel):
    return channel.stream_stream(f"/{NAME}/Each", StringValue.SerializeToString, StringValue.FromString)


async def failure_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await asyncio.wait_for(call, 30)
    return failed.value


@pytest.mark.parametrize(
    ("request_value", "code", "error_code"),
    [
        ("missing", Code.NOT_FOUND, "NOT_FOUND"),
        ("gone", Code.UNAVAILABLE, "UNAVAILABLE"),
        ("graph", Code.FAILED_PRECONDITION, "VALIDATION_ERROR"),
        ("late", Code.DEADLINE_EXCEEDED, "TIMEOUT"),
        ("bug", Code.INTERNAL, "INVALID_STATE"),
    ],
)
@pytest.mark.parametrize("method", ["unary", "stream"])
def test_an_error_of_a_service_reaches_the_client_with_its_status_and_code(request_value, code, error_code, method):
    async def run():
        async with serving() as (_, _, address), open_aio_channel(address) as channel:
            request = StringValue(value=request_value)
            if method == "unary":
                return await failure_of(say(channel)(request))
            return await failure_of(each(channel)(iter([request])).read())

    error = asyncio.run(run())

    assert error.code() is code
    assert dict(error.trailing_metadata())[ERROR_CODE] == error_code
    assert "a secret" not in error.details()


@pytest.mark.parametrize("method", ["Say", "Each"])
def test_bytes_that_are_not_the_message_are_an_invalid_argument(method):
    async def run():
        async with serving() as (_, _, address), open_aio_channel(address) as channel:
            if method == "Say":
                return await failure_of(channel.unary_unary(f"/{NAME}/Say")(b"\xff\xff\xff"))
            return await failure_of(channel.stream_stream(f"/{NAME}/Each")(iter([b"\xff\xff\xff"])).read())

    assert asyncio.run(run()).code() is Code.INVALID_ARGUMENT


def test_a_call_beyond_the_limit_is_refused_and_the_ones_before_are_answered():
    async def run():
        async with serving(max_calls=1) as (server, answers, address), open_aio_channel(address) as channel:
            first = say(channel)(StringValue(value="wait"))
            await asyncio.wait_for(answers.waiting.wait(), 30)
            refused = await failure_of(say(channel)(StringValue(value="x")))
            health = health_pb2_grpc.HealthStub(channel)
            watched = await health.Check(health_pb2.HealthCheckRequest())
            answers.go_on.set()
            return refused, watched, await first, server.gate.active

    refused, watched, first, active = asyncio.run(run())

    assert refused.code() is Code.RESOURCE_EXHAUSTED
    assert watched.status == health_pb2.HealthCheckResponse.SERVING
    assert first.value == "wait"
    assert active == 0


def test_a_message_over_the_limit_is_refused():
    async def run():
        async with serving() as (_, _, address), open_aio_channel(address) as channel:
            return await failure_of(say(channel)(StringValue(value="x" * 200_000)))

    assert asyncio.run(run()).code() is Code.RESOURCE_EXHAUSTED


def test_reflection_lists_the_services_and_health_answers_for_each():
    async def run():
        async with serving() as (_, _, address), open_aio_channel(address) as channel:
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            answer = await stub.ServerReflectionInfo(iter([request])).read()
            health = health_pb2_grpc.HealthStub(channel)
            status = await health.Check(health_pb2.HealthCheckRequest(service=NAME))
            unknown = await failure_of(health.Check(health_pb2.HealthCheckRequest(service="none")))
            return [each.name for each in answer.list_services_response.service], status.status, unknown.code()

    names, status, unknown = asyncio.run(run())

    assert NAME in names
    assert "grpc.health.v1.Health" in names
    assert status == health_pb2.HealthCheckResponse.SERVING
    assert unknown is Code.NOT_FOUND


@asynccontextmanager
async def nearly_full():
    """Run a server that takes 1,000 bytes at once and has a call of more than half of them in work."""
    async with (
        serving(max_in_flight_bytes=1_000) as (server, answers, address),
        open_aio_channel(address) as channel,
    ):
        accepted = say(channel)(StringValue(value="wait" + "x" * 600))
        await asyncio.wait_for(answers.waiting.wait(), 30)
        yield server, answers, channel, accepted


def test_a_call_for_which_there_are_too_many_bytes_in_work_is_refused_with_the_reason():
    large = StringValue(value="x" * 600)

    async def run():
        async with nearly_full() as (_, answers, channel, accepted):
            refused = await failure_of(say(channel)(large))
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            small = (await say(channel)(StringValue(value="small"))).value
            answers.go_on.set()
            await accepted
            return refused, health.status, small, (await say(channel)(large)).value

    refused, health, small, later = asyncio.run(run())

    assert refused.code() is Code.RESOURCE_EXHAUSTED
    assert "grpc_in_flight_bytes" in refused.details()
    assert dict(refused.trailing_metadata())[ERROR_CODE] == "RESOURCE_EXHAUSTED"
    assert (health, small, later) == (health_pb2.HealthCheckResponse.SERVING, "small", large.value)


def test_a_call_larger_than_the_bound_is_taken_where_it_is_alone():
    async def run():
        async with serving(max_in_flight_bytes=10) as (_, _, address), open_aio_channel(address) as channel:
            return [(await say(channel)(StringValue(value="x" * 600))).value for _ in range(2)]

    assert asyncio.run(run()) == ["x" * 600] * 2


def test_calls_that_fail_or_are_not_the_message_leave_no_bytes_in_work():
    async def run():
        async with serving(max_in_flight_bytes=1_000) as (server, _, address), open_aio_channel(address) as channel:
            await failure_of(say(channel)(StringValue(value="bug")))
            garbled = channel.unary_unary(f"/{NAME}/Say", lambda data: data, StringValue.FromString)
            await failure_of(garbled(b"\xff" * 900))
            stream = each(channel)(iter([StringValue(value="x" * 300), StringValue(value="bug")]))
            with pytest.raises(grpc.aio.AioRpcError):
                [answer async for answer in stream]
            await server.gate.wait_idle(30)
            return server.gate.bytes_in_work

    assert asyncio.run(run()) == 0


async def all_of(stream):
    return [answer.value async for answer in stream]


def test_a_stream_is_not_read_further_until_there_is_room():
    async def run():
        async with nearly_full() as (server, answers, channel, accepted):
            stream = each(channel)(iter([StringValue(value="y" * 600)] * 3))
            reading = asyncio.ensure_future(all_of(stream))
            while not server.gate.streams_that_wait:
                await asyncio.sleep(0.01)
            was_answered = reading.done()
            answers.go_on.set()
            await accepted
            return was_answered, await reading, server.gate.bytes_in_work

    assert asyncio.run(asyncio.wait_for(run(), 60)) == (False, ["y" * 600] * 3, 0)


def test_a_stream_that_another_server_hands_on_is_refused_where_there_is_no_room():
    async def run():
        async with nearly_full() as (server, answers, channel, accepted):
            stream = each(channel)(iter([StringValue(value="y" * 600)]), metadata=((FORWARDED, "1"),))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await all_of(stream)
            answers.go_on.set()
            await accepted
            await server.gate.wait_idle(30)
            return refused.value.code(), server.gate.bytes_in_work

    assert asyncio.run(asyncio.wait_for(run(), 60)) == (Code.RESOURCE_EXHAUSTED, 0)


def test_a_request_that_waits_when_its_stream_ends_counts_nothing_afterwards():
    async def run():
        everything = InFlightBytes(10)
        everything.take(10)
        held = StreamBytes(everything)
        waiting = asyncio.create_task(held.take(5))
        while not everything.waiting:
            await asyncio.sleep(0)
        held.close()
        everything.give_back(10)
        await waiting
        return everything.now

    assert asyncio.run(run()) == 0


def test_the_health_of_a_server_follows_what_the_server_says_of_itself():
    async def run():
        found = [Health(False)]
        async with serving() as (server, _, address), open_aio_channel(address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            seen = [(await watch.read()).status]
            following = asyncio.create_task(server.follow(lambda: found[-1]))
            seen.append((await asyncio.wait_for(watch.read(), 60)).status)
            found.append(Health(True))
            seen.append((await asyncio.wait_for(watch.read(), 60)).status)
            following.cancel()
            return seen

    serves, serves_not = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert asyncio.run(run()) == [serves, serves_not, serves]


def test_a_stopping_server_says_so_refuses_new_calls_and_finishes_the_accepted_ones():
    async def run():
        async with serving() as (server, answers, address), open_aio_channel(address) as channel:
            accepted = say(channel)(StringValue(value="wait"))
            await asyncio.wait_for(answers.waiting.wait(), 30)
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            before = (await watch.read()).status
            stopping = asyncio.create_task(server.stop())
            after = (await watch.read()).status
            refused = await failure_of(say(channel)(StringValue(value="x")))
            answers.go_on.set()
            return before, after, refused.code(), (await accepted).value, await stopping

    before, after, refused, accepted, finished = asyncio.run(run())

    assert before == health_pb2.HealthCheckResponse.SERVING
    assert after == health_pb2.HealthCheckResponse.NOT_SERVING
    assert refused is Code.UNAVAILABLE
    assert accepted == "wait"
    assert finished


def test_a_server_that_stops_gives_up_on_a_call_that_does_not_end():
    async def run():
        async with serving(stop_s=0.1) as (server, answers, address), open_aio_channel(address) as channel:
            stuck = say(channel)(StringValue(value="wait"))
            await asyncio.wait_for(answers.waiting.wait(), 30)
            finished = await server.stop()
            return finished, (await failure_of(stuck)).code()

    finished, code = asyncio.run(run())

    assert not finished
    assert code in (Code.UNAVAILABLE, Code.CANCELLED)


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_only_health_is_answered(token):
    async def run():
        async with serving(ServerSecurity(token="right")) as (_, _, address):
            async with open_aio_channel(address, ChannelSecurity(token=token)) as channel:
                refused = await failure_of(say(channel)(StringValue(value="x")))
                health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            async with open_aio_channel(address, ChannelSecurity(token="right")) as channel:
                unary = (await say(channel)(StringValue(value="x"))).value
                streamed = (await each(channel)(iter([StringValue(value="y")])).read()).value
            return refused.code(), health.status, unary, streamed

    assert asyncio.run(run()) == (Code.UNAUTHENTICATED, health_pb2.HealthCheckResponse.SERVING, "x", "y")


def test_a_blocking_client_sends_the_token_too():
    async def run():
        async with serving(ServerSecurity(token="right")) as (_, _, address):
            return await asyncio.to_thread(call, address)

    def call(address):
        with open_channel(address, ChannelSecurity(token="right")) as channel:
            return say(channel)(StringValue(value="x"), timeout=30).value

    assert asyncio.run(run()) == "x"


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return Authority(folder, "ours"), Authority(folder, "theirs")


def test_over_tls_a_client_that_trusts_the_ca_is_answered_and_others_are_not(authorities):
    ours, theirs = authorities
    pair = ours.issue("server")

    async def run():
        async with serving(ServerSecurity(pair.certificate, pair.key)) as (_, _, address):
            async with open_aio_channel(address, ChannelSecurity(ours.certificate)) as channel:
                answer = (await say(channel)(StringValue(value="x"))).value
            failed = []
            for security in (ChannelSecurity(theirs.certificate), ChannelSecurity()):
                async with open_aio_channel(address, security) as channel:
                    failed.append((await failure_of(say(channel)(StringValue(value="x"), timeout=20))).code())
            return answer, failed

    assert asyncio.run(run()) == ("x", [Code.UNAVAILABLE, Code.UNAVAILABLE])


def test_mutual_tls_lets_in_only_clients_with_a_certificate_of_the_ca(authorities):
    ours, theirs = authorities
    pair, client, stranger = ours.issue("server"), ours.issue("client"), theirs.issue("stranger")

    async def run():
        async with serving(ServerSecurity(pair.certificate, pair.key, ours.certificate)) as (_, _, address):
            known = ChannelSecurity(ours.certificate, client.certificate, client.key)
            async with open_aio_channel(address, known) as channel:
                answer = (await say(channel)(StringValue(value="x"))).value
            failed = []
            unknown = ChannelSecurity(ours.certificate, stranger.certificate, stranger.key)
            for security in (ChannelSecurity(ours.certificate), unknown):
                async with open_aio_channel(address, security) as channel:
                    failed.append((await failure_of(say(channel)(StringValue(value="x"), timeout=20))).code())
            return answer, failed

    assert asyncio.run(run()) == ("x", [Code.UNAVAILABLE, Code.UNAVAILABLE])


def counted(method, code):
    return REGISTRY.get_sample_value("pipestream_grpc_calls_total", {"method": method, "code": code}) or 0


def test_calls_are_counted_by_method_and_status():
    async def run():
        async with serving() as (_, _, address), open_aio_channel(address) as channel:
            await say(channel)(StringValue(value="hello"))
            with pytest.raises(grpc.aio.AioRpcError):
                await say(channel)(StringValue(value="missing"))

    before = counted("Answers/Say", "OK"), counted("Answers/Say", "NOT_FOUND")

    asyncio.run(run())

    assert (counted("Answers/Say", "OK"), counted("Answers/Say", "NOT_FOUND")) == (before[0] + 1, before[1] + 1)
