"""Messages of a stream: quick ones in groups, slow ones by themselves, never more than the window at once."""

from __future__ import annotations

import asyncio

import pytest

from pipestream.engine_server.in_flight import in_groups
from pipestream.errors import TransientError


class Server:
    """Answers groups of names when it is let: ``slow`` names wait for their own event, the others for ``open``."""

    def __init__(self):
        self.groups = []
        self.open = asyncio.Event()
        self.slow = asyncio.Event()
        self.stopping = asyncio.Event()

    async def answer(self, group):
        self.groups.append(list(group))
        await (self.slow if group[0].startswith("slow") else self.open).wait()
        return [f"{name}!" for name in group]

    def serve(self, requests, window=100):
        return in_groups(requests, lambda name: not name.startswith("slow"), self.answer, window, self.stopping)


async def give(*names):
    for name in names:
        yield name
        await asyncio.sleep(0)


async def endless():
    number = 0
    while True:
        yield f"q{number}"
        number += 1
        await asyncio.sleep(0)


async def settle():
    for _ in range(50):
        await asyncio.sleep(0)


def test_what_arrives_while_two_groups_are_busy_is_the_next_group():
    async def run():
        server = Server()
        names = [f"q{number}" for number in range(20)]
        answers = asyncio.ensure_future(_all(server.serve(give(*names))))
        await settle()
        begun = len(server.groups)
        server.open.set()
        assert sorted(await answers) == sorted(f"{name}!" for name in names)
        return begun, server.groups

    begun, groups = asyncio.run(run())
    assert begun == 2
    assert len(groups) == 3
    assert [name for group in groups for name in group] == [f"q{number}" for number in range(20)]


def test_a_slow_message_holds_up_no_other():
    async def run():
        server = Server()
        server.open.set()
        answers = server.serve(give("slow-1", "q1", "slow-2", "q2"))
        first = {await anext(answers), await anext(answers)}
        server.slow.set()
        return first, {answer async for answer in answers}

    assert asyncio.run(run()) == ({"q1!", "q2!"}, {"slow-1!", "slow-2!"})


def test_no_more_is_read_than_the_window_allows_until_answers_are_taken():
    async def run():
        server = Server()
        answers = server.serve(endless(), window=5)
        first = asyncio.ensure_future(anext(answers))
        await settle()
        read = sum(map(len, server.groups))
        server.open.set()
        await first
        await answers.aclose()
        return read

    assert asyncio.run(run()) <= 5


def test_when_the_engine_stops_what_was_read_is_answered_and_the_call_ends():
    async def run():
        server = Server()
        answered = []
        answers = server.serve(endless(), window=5)

        async def take():
            async for answer in answers:
                answered.append(answer)

        taking = asyncio.ensure_future(take())
        await settle()
        server.stopping.set()
        await settle()
        server.open.set()
        with pytest.raises(TransientError, match="stopping"):
            await taking
        return answered, server.groups

    answered, groups = asyncio.run(run())
    assert answered == [f"{name}!" for group in groups for name in group]
    assert len(answered) == 5


async def _all(answers):
    return [answer async for answer in answers]
