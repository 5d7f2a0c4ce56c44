"""Windows are limited, cover a few partitions at least, and a task with one is taken apart as it was put together."""

from __future__ import annotations

import json
from dataclasses import replace

from pipestream.drain.range_task import RangeTask, ordered_ids, unordered_ids
from pipestream.drain.window import join_tasks, split_task
from pipestream.kafka.records import OffsetRange
from pipestream.offsets.tail_reader import OPEN_END
from pipestream.stream.executors import open_ranges
from pipestream.stream.windows import Windows


def make_task(partition: int) -> RangeTask:
    return RangeTask(
        topic="intake.files",
        topic_id="id",
        offsets=((partition, 10, 20),),
        lane="graph",
        group="group",
        run_id="run",
        node_id="node",
        datasource_id="files",
        accept_failures=False,
        doc_ids=(),
        is_live=True,
        transactional_ids=unordered_ids("group", "intake.files", partition),
        graph="",
        unrecorded=((partition, 5, ""),),
    )


def test_no_more_windows_are_open_at_once_than_allowed():
    windows = Windows(lambda: 1)

    with windows.try_open(True) as first, windows.try_open(True) as second:
        assert (first, second) == (True, False)
    with windows.try_open(True) as again:
        assert again


def test_a_window_that_is_not_wanted_takes_no_place():
    windows = Windows(lambda: 1)

    with windows.try_open(False) as unwanted, windows.try_open(True) as wanted:
        assert (unwanted, wanted) == (False, True)


def test_a_task_for_several_partitions_is_split_into_the_tasks_it_was_joined_from():
    tasks = [make_task(0), make_task(3)]

    joined = join_tasks(tasks, 2.0)

    assert (joined.window_s, joined.is_ordered) == (2.0, False)
    assert split_task(joined) == tasks
    assert RangeTask.from_fields(json.loads(json.dumps(joined.to_fields()))) == joined


def test_a_task_in_order_of_time_is_known_by_its_transactional_id():
    ids = ordered_ids("group", "intake.files", [0])

    assert replace(make_task(0), transactional_ids=ids).is_ordered


def test_a_window_of_a_topic_with_many_partitions_drains_some_of_them():
    waiting = [OffsetRange("t", partition, 0, 1) for partition in (3, 50)]

    ranges = open_ranges(waiting, dict.fromkeys(range(100), 7), {20})

    assert [each.partition for each in ranges] == [0, 1, 2, 3, 4, 5, 20, 50]
    assert {(each.start, each.end) for each in ranges} == {(7, OPEN_END)}


def test_a_window_drains_every_partition_in_which_something_waits_or_moved():
    waiting = [OffsetRange("t", partition, 0, 1) for partition in range(0, 40, 2)]

    ranges = open_ranges(waiting, dict.fromkeys(range(100), 7), {1})

    assert [each.partition for each in ranges] == [0, 1, *range(2, 40, 2)]
