"""The lanes of the suite: each test runs in one, and the table of rare tests has no stale row."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lanes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def collected():
    """Return the node IDs of the whole suite."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--lane", "all", "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr
    return [line for line in ended.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize("pattern", [*lanes.NIGHTLY, *lanes.NOT_FAST])
def test_every_pattern_of_a_lane_matches_some(collected, pattern):
    assert any(re.search(pattern, test) for test in collected)


def test_each_test_is_in_the_standard_or_in_the_nightly_lane(collected, monkeypatch):
    monkeypatch.delenv("KLAMM_RELEASES", raising=False)
    standard, nightly = lanes.Lane("standard"), lanes.Lane("nightly")
    assert all(standard.has(test) != nightly.has(test) for test in collected)


def test_the_fast_lane_has_no_test_against_apache_kafka_and_no_spark(collected, monkeypatch):
    monkeypatch.setenv("KLAMM_TEST_WITHOUT_JAVA", "1")  # the lane sets it: undone after this test
    fast = [test for test in collected if lanes.Lane("fast").has(test)]
    assert len(fast) > len(collected) / 2
    assert [test for test in fast if "[real" in test or "-real" in test or "/spark/" in test] == []
