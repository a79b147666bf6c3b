"""Offsets: their form in checkpoints, limits, and the division of ranges into tasks. No broker, no Spark."""

from __future__ import annotations

import json

import pytest

from klamm.spark.offsets import OffsetRange, divide, from_json, join, limit_bytes, limit_records, to_json


def test_json_has_the_form_of_sparks_connector_in_a_fixed_order():
    offsets = {("b", 0): 1, ("a", 10): 2, ("a", 9): 3}
    assert json.dumps(to_json(offsets)) == '{"a": {"9": 3, "10": 2}, "b": {"0": 1}}'


def test_json_comes_back_as_it_was():
    offsets = {("a", 9): 3, ("b", 0): 1}
    assert from_json(to_json(offsets)) == offsets


@pytest.mark.parametrize(
    ("limit", "sizes", "expected"),
    [
        (10, [100, 100], [5, 5]),
        (10, [90, 10], [8, 2]),
        (10, [1000, 1], [9, 1]),
        (100, [30, 30, 40], [30, 30, 40]),
        (1000, [3, 4], [3, 4]),
        (7, [10, 10, 10], [2, 2, 3]),
        (3, [10, 10, 10], [1, 1, 1]),
        (2, [10, 10, 10], [1, 1, 0]),
        (1, [10, 10], [1, 0]),
        (5, [0, 10], [0, 5]),
    ],
)
def test_a_limit_is_divided_in_proportion(limit, sizes, expected):
    start = {("t", number): 1000 for number in range(len(sizes))}
    end = {("t", number): 1000 + size for number, size in enumerate(sizes)}
    shared = limit_records(limit, start, end)
    assert [shared["t", number] - 1000 for number in range(len(sizes))] == expected


@pytest.mark.parametrize("limit", range(1, 40))
def test_a_limit_is_exact_and_no_partition_waits_for_the_others(limit):
    end = {("t", number): size for number, size in enumerate([40, 1, 2000, 0, 17, 3])}
    start, waits = dict.fromkeys(end, 0), dict.fromkeys(end, 0)
    while start != end:
        before, start = start, limit_records(limit, start, end)
        assert sum(start.values()) == min(sum(before.values()) + limit, sum(end.values()))
        assert all(before[tp] <= start[tp] <= end[tp] for tp in end)
        waits = {tp: waits[tp] + 1 if start[tp] == before[tp] < end[tp] else 0 for tp in end}
        assert max(waits.values()) <= len(end)


def test_a_partition_that_ends_before_its_start_keeps_its_end():
    start, end = {("t", 0): 50, ("t", 1): 0}, {("t", 0): 10, ("t", 1): 100}
    assert limit_records(20, start, end) == {("t", 0): 10, ("t", 1): 20}


def test_a_limit_in_bytes_uses_the_sizes_of_records():
    start, end = {("t", 0): 10, ("t", 1): 0}, {("t", 0): 110, ("t", 1): 100}
    sizes = {("t", 0): 10.0, ("t", 1): 90.0}
    assert limit_bytes(10_000, start, end, sizes) == end
    assert limit_bytes(1000, start, end, sizes) == {("t", 0): 20, ("t", 1): 10}
    assert limit_bytes(1, start, end, sizes) == {("t", 0): 11, ("t", 1): 1}
    assert limit_bytes(1, start, end, {}) == end


def spans(*sizes):
    return [OffsetRange("t", number, 1000, 1000 + size) for number, size in enumerate(sizes)]


def parts(ranges, **rules):
    divided = divide(ranges, rules.get("least"), rules.get("records"), rules.get("bytes"), rules.get("sizes"))
    for whole in ranges:  # every offset once, in order
        own = [part for part in divided if part.partition == whole.partition]
        assert [own[0].start, *(part.end for part in own)] == [*(part.start for part in own), whole.end]
    return [part.end - part.start for part in divided]


@pytest.mark.parametrize(
    ("sizes", "least", "expected"),
    [
        ([100, 100], None, [100, 100]),
        ([100, 100], 2, [100, 100]),
        ([100, 100], 4, [50, 50, 50, 50]),
        ([300, 100], 4, [100, 100, 100, 100]),
        ([1000, 1], 4, [333, 333, 334, 1]),
        ([2], 5, [1, 1]),
        ([7], 3, [2, 2, 3]),
    ],
)
def test_ranges_become_about_as_many_tasks_as_requested(sizes, least, expected):
    assert parts(spans(*sizes), least=least) == expected


def test_no_task_has_more_records_than_allowed():
    assert parts(spans(10, 3), records=4) == [3, 3, 4, 3]
    assert parts(spans(10, 3), records=4, least=4) == [3, 3, 4, 3]
    assert parts(spans(100), records=60, least=4) == [25, 25, 25, 25]


def test_no_task_has_more_bytes_than_allowed_if_sizes_are_known():
    sizes = {("t", 0): 100.0}
    assert parts(spans(10, 10), bytes=500, sizes=sizes) == [5, 5, 10]
    assert parts(spans(3), bytes=1, sizes=sizes) == [1, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([10] * 16, [10] * 16),
        ([10] * 200, [120] * 16 + [80]),
        ([900] * 40, [900] * 40),
        ([500] * 40, [1000] * 20),
        ([20, 5000, *[10] * 100], [20, 5000, *[370] * 2, 260]),
    ],
)
def test_small_ranges_are_joined(sizes, expected):
    ranges = spans(*sizes)
    groups = join(ranges)
    assert [each for group in groups for each in group] == ranges
    assert [sum(each.end - each.start for each in group) for group in groups] == expected
