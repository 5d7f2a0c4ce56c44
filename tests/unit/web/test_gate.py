from __future__ import annotations

import asyncio
import threading

import pytest

from pipestream.errors import RequestInvalid
from pipestream.settings import Settings
from pipestream_airflow.web.gate import Gate, TooSlow
from pipestream_airflow.web.services import Services


def test_the_same_question_is_asked_once_and_shared():
    asked = []
    go = threading.Event()

    def question():
        asked.append(1)
        assert go.wait(60)
        return "answer"

    async def run():
        gate = Gate("Kafka", threads=4, patience_s=60)
        waiting = [asyncio.create_task(gate.ask("key", question)) for _ in range(50)]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == ["answer"] * 50
    assert len(asked) == 1


def test_a_server_that_hangs_takes_its_own_threads_only():
    go = threading.Event()

    async def run():
        kafka, database = (Gate(name, threads=2, patience_s=0.05) for name in ("Kafka", "PostgreSQL"))
        for number in range(20):
            with pytest.raises(TooSlow, match=r"Kafka did not answer within 0\.05 s"):
                await kafka.ask(number, lambda: go.wait(60))
        threads = sum("anyio" in thread.name.lower() for thread in threading.enumerate())
        answer = await database.ask("now", lambda: "here", patience_s=60)
        go.set()
        return threads, answer

    threads, answer = asyncio.run(run())
    assert threads <= 2
    assert answer == "here"


def test_an_action_that_takes_longer_than_a_page_waits_goes_on_and_the_answer_says_so():
    go = threading.Event()
    done = threading.Event()

    def act():
        assert go.wait(60)
        done.set()

    async def run():
        actions = Services(Settings(leases="none", web_action_s=0.05)).actions
        with pytest.raises(TooSlow, match=r"did not answer within 0\.05 s; it goes on, so look at what it has done"):
            await actions.ask("delete", act)
        go.set()
        assert await asyncio.to_thread(done.wait, 60)

    asyncio.run(run())


def test_too_many_questions_are_refused_at_once():
    go = threading.Event()

    async def run():
        gate = Gate("Kafka", threads=1, patience_s=0.01)
        for number in range(64):
            with pytest.raises(TooSlow):
                await gate.ask(number, lambda: go.wait(60))
        with pytest.raises(TooSlow, match="64 questions wait"):
            await gate.ask("one more", lambda: None, patience_s=60)
        go.set()

    asyncio.run(run())


def test_an_error_reaches_everybody_who_waits_and_is_not_kept():
    answers = iter([RequestInvalid("no"), "yes"])

    def question():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run():
        gate = Gate("Kafka", threads=1, patience_s=60)
        with pytest.raises(RequestInvalid):
            await gate.ask("key", question, keep_s=60)
        return [await gate.ask("key", question, keep_s=60) for _ in range(2)]

    assert asyncio.run(run()) == ["yes", "yes"]
