"""What the workers of a Spark are sent: every one of them gets all of it."""

from __future__ import annotations

from pipestream_spark.worker import Orders
from pipestream_testing.made import make_task

GRAPH = "graph" * 1_000


def tasks_of(count):
    return [
        make_task("intake.a", "first", offsets=((n, n, n + 9),), transactional_ids=(f"g/intake.a/{n}",), graph=GRAPH)
        for n in range(count)
    ]


def test_each_task_arrives_as_it_was_sent():
    for count in (1, 2, 30):
        tasks = tasks_of(count)

        orders = Orders.of(tasks)

        assert [orders.task(number) for number in range(count)] == tasks


def test_the_graph_is_sent_once_however_many_tasks_there_are():
    orders = Orders.of(tasks_of(100))

    assert (orders.shared + "".join(orders.own)).count(GRAPH) == 1
