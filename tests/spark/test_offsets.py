"""Offsets: the form that checkpoints hold, and how a limit is shared out. No broker, no Spark."""

from __future__ import annotations

import json

import pytest

from klamm.spark.offsets import from_json, share, to_json


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
        (10, [90, 10], [9, 1]),
        (10, [1000, 1], [9, 1]),
        (100, [30, 30, 40], [30, 30, 40]),
        (1000, [3, 4], [3, 4]),
        (7, [10, 10, 10], [2, 2, 3]),
        (1, [10, 10], [1, 1]),
        (5, [0, 10], [0, 5]),
    ],
)
def test_a_limit_is_shared_in_proportion(limit, sizes, expected):
    start = {("t", number): 1000 for number in range(len(sizes))}
    end = {("t", number): 1000 + size for number, size in enumerate(sizes)}
    shared = share(limit, start, end)
    assert [shared["t", number] - 1000 for number in range(len(sizes))] == expected


def test_a_partition_that_ends_before_its_start_keeps_its_end():
    start, end = {("t", 0): 50, ("t", 1): 0}, {("t", 0): 10, ("t", 1): 100}
    assert share(20, start, end) == {("t", 0): 10, ("t", 1): 20}
