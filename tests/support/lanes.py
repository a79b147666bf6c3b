"""The three lanes of the test suite, as the pytest option `--lane`.

* `fast`: unit tests and tests against the dev broker, without the cases of `NOT_FAST`. They need neither Java nor Spark.
* `standard`, the default: also Apache Kafka, Spark and old releases, without the rare tests.
* `nightly`: only the rare tests, which match the patterns of `NIGHTLY`.
* `all`: everything.

Each pattern of `NIGHTLY` names the cases that leave the standard lane, and each pattern of `NOT_FAST` the cases that
leave the fast lane. `tests/unit/test_lanes.py` fails for a pattern that matches no test, so the tables cannot go stale.
"""

from __future__ import annotations

import os
import re

import pytest

LANES = ("fast", "standard", "nightly", "all")

NIGHTLY = {
    # Six protocols run against the dev broker; against Apache Kafka, the newest classic one and KIP-848's.
    r"broker/test_groups\.py::.*\[real-(range|roundrobin|sticky|several)": "four of six group protocols on Apache Kafka",
    # Each client leads once on each broker; the other strategies and orders are rare.
    r"broker/test_mixed_groups\.py::test_three_clients_share_one_group\["
    r"(dev-(?!klamm confluent kafka-python-range|java klamm kafka-python-cooperative-sticky"
    r"|confluent klamm java-roundrobin|kafka-python klamm confluent-cooperative-sticky|java kafka-python klamm-sticky)"
    r"|real-(?!klamm confluent kafka-python-cooperative-sticky|java klamm kafka-python-range))": (
        "the other orders and strategies of mixed groups"
    ),
    # Each call starts a JVM. Kafka's classic protocol with a member of another client, and KIP-848's with klamm, stay.
    r"test_kafkas_own_tool_lists_describes_resets_and_deletes\[\w+-(classic-Klamm|consumer-Confluent)": (
        "kafka-consumer-groups.sh with the other members"
    ),
    # 0.8.0, 0.10.2.2 and 2.8.2 stay: one for each record format. An explicit KLAMM_RELEASES is obeyed in any lane.
    r"matrix/.*\[(0\.8\.2\.2|0\.9\.0\.1|0\.11\.0\.3|3\.9\.1)\b": "four of the seven usual releases",
    # Seed 8 dies once, late, in output mode update. The standard lane kills an executor in output mode append.
    r"spark/test_killed_driver\.py::.*\[(?!8\])\d+\]": "nine of ten seeds of killed drivers",
    r"spark/test_killed_node\.py::": "Spark beside nodes of Kafka that die",
    r"spark/test_killed_executor\.py::test_two_attempts": "speculative execution on a cluster with two addresses",
    r"spark/test_killed_executor\.py::test_every_record_is_written_once_if_a_worker.*update": "killed executors in update mode",
    r"spark/test_killed_executor\.py::.*barrier_mode": "stages in barrier mode that are repeated",
    r"spark/test_beside_connector\.py::test_a_checkpoint_of_every_trigger.*\[klamm": "checkpoints that klamm wrote first",
    r"spark/test_pipeline\.py::.*\[\d+\]": "the log pipeline with its driver killed",
    r"spark/test_archives\.py::": "klamm shipped to a cluster as an archive",
    r"spark/test_connect\.py::.*typed_columns": "typed columns through Spark Connect",
    r"spark/test_memory\.py::": "memory of Spark's workers with large records",
    r"spark/test_workers\.py::.*\[forked": "workers of Spark that are forked from a process with a client",
    r"broker/test_demo\.py::test_the_demo_is_exact\[real": "the demo on Apache Kafka",
    # Kafka's coordinator looks for new topics every ten seconds. One such test stays: `test_groups.py`.
    r"broker/test_changing_partitions\.py::.*\[real-.*config2-pattern": "topics that KIP-848 finds later by a pattern",
    r"broker/test_cluster\.py::test_a_million_records": "a million records through nodes that die",
    r"broker/test_streams_groups\.py::.*\[async": "Kafka Streams beside the asyncio client",
    r"soak/test_prefetch\.py::": "memory of a consumer that prefetches a large topic",
}
JAVA = r"^tests/(spark|matrix|soak)/|\[(\S+-)?real\b"
"""Tests that the fast lane deselects. Other tests that start Java find none in this lane and are skipped."""

NOT_FAST = {
    r"broker/test_demo\.py::": "the demo, which starts Spark",
    r"unit/test_lanes\.py::": "the lanes, whose tests collect the whole suite",
    r"docs/test_programs\.py::test_mypy_strict_accepts_the_programs": "the types of the programs in the docs",
}
"""Cases that take too long for the fast lane. The standard lane runs them."""


def add_option(parser: pytest.Parser) -> None:
    """Add `--lane`."""
    parser.addoption("--lane", choices=LANES, default="standard", help="which tests run; see tests/support/lanes.py")


class Lane:
    """Deselects the tests of other lanes."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "fast":
            os.environ["KLAMM_TEST_WITHOUT_JAVA"] = "1"

    def has(self, test: str) -> bool:
        """Return whether this lane runs a test, given its node ID."""
        if self.name == "all" or ("matrix/" in test and "KLAMM_RELEASES" in os.environ):
            return True
        is_rare = any(re.search(pattern, test) for pattern in NIGHTLY)
        if self.name == "nightly":
            return is_rare
        return not is_rare and not (self.name == "fast" and any(re.search(each, test) for each in (JAVA, *NOT_FAST)))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests of this lane."""
        left = [item for item in items if not self.has(item.nodeid)]
        items[:] = [item for item in items if self.has(item.nodeid)]
        config.hook.pytest_deselected(items=left)


class Failures:
    """Prints each failure at once, because a killed run never reaches its summary."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the last lines of a failure."""
        if report.failed:
            last = report.longreprtext.splitlines()[-LAST_LINES:]
            self._reporter.write_line(f"\nFAILED {report.nodeid} ({report.when})\n" + "\n".join(last), red=True)


LAST_LINES = 15
"""Number of lines of a failure that are printed at once. The summary has all lines."""
