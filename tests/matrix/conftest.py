"""Every release of Kafka in turn, and the page that says what came of it.

`KLAMM_RELEASES` names the releases, or is `all`; without it there are those whose formats differ most. With
`KLAMM_COMPATIBILITY=path` the run writes the page `docs/compatibility.md` there.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import klamm
from kafka_broker import KafkaUnavailable, release_number
from kafka_release import RELEASES, start_release

if TYPE_CHECKING:
    from collections.abc import Iterator

# 4.4 is what all other tests run against.
USUAL = ("0.8.0", "0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.1")
HEAD = """# Compatibility

What klamm did with a broker of each release, one node, on loopback: the tests in `tests/matrix`, which write this page
(`make test-matrix`). *yes*: done, and checked by reading back; *from 0.11.0*: raises `UnsupportedVersionError`, which names
the first release that has it; *refused*: the broker says no; *no*: failed.
"""
NOTES = """
Brokers before 0.10 do not say what they speak. A client finds out with three connections more, once for each address: 0.8
closes the first one, 0.9 is silent for `api.version.request.timeout.ms`. `broker.version.fallback` names the release
instead. Also of them:

* Idempotence that is only on by default is off, without a word, where the leader of a partition is older than 0.11;
  `enable_idempotence=True` is refused there.
* Records are sent in the format of the time: without headers before 0.11, without timestamps before 0.10. Headers, and
  timestamps that were given, are refused instead of lost.
* `acks` of 2 and more are for 0.8 alone, as `confluent-kafka` has them too.
* Before 0.8.2 there are no coordinators: offsets are kept in ZooKeeper, 0.8.0 keeps none, and groups are from 0.9 on.
* JoinGroup of 0.9 and 0.10.0 has no time of its own for rebalances: it is the session's, which is 30 s unless
  `session.timeout.ms` says otherwise, the longest that 0.9 allows by default.
* A message larger than `max.partition.fetch.bytes` is cut off by brokers before 0.10.1; it is asked for again with more,
  up to `fetch.max.bytes`.
"""


class Release:
    """A running broker of a release."""

    def __init__(self, version: str, bootstrap_servers: str) -> None:
        self.version = version
        self.number = release_number(version)
        self.bootstrap_servers = bootstrap_servers
        self.result = "yes"

    @property
    def servers(self) -> dict[str, object]:
        """A client's first argument. Only 0.9 takes the time it is given, and each client here is a new one."""
        return {"bootstrap.servers": self.bootstrap_servers, "api.version.request.timeout.ms": 200}

    def has(self, since: str) -> bool:
        """Whether it is of a release, or a later one."""
        return self.number >= release_number(since)

    @contextlib.contextmanager
    def needs(self, since: str) -> Iterator[None]:
        """What is in here works from a release on, and is refused with its name before."""
        if self.has(since):
            yield
            return
        self.result = f"from {since}"
        with pytest.raises(klamm.errors.UnsupportedVersionError, match=rf"Kafka {re.escape(since)} is the first"):
            yield

    def confluent(self, **config: object) -> dict[str, object]:
        """What confluent-kafka has to be told."""
        if self.has("0.10.0"):
            return {"bootstrap.servers": self.bootstrap_servers, **config}
        fallback = "0.8.1" if self.version == "0.8.0" else self.version
        old = {"api.version.request": False, "broker.version.fallback": fallback}
        return {"bootstrap.servers": self.bootstrap_servers, **old, **config}


def chosen() -> list[str]:
    """The releases to start."""
    names = os.environ.get("KLAMM_RELEASES", ",".join(USUAL))
    return list(RELEASES) if names == "all" else names.split(",")


@pytest.fixture(scope="session", params=chosen())
def running(request: pytest.FixtureRequest) -> Iterator[Release]:
    """A broker, which stops before the next one starts."""
    with contextlib.ExitStack() as stack:
        try:
            kafka = stack.enter_context(start_release(request.param))
        except KafkaUnavailable as reason:
            pytest.skip(f"real Kafka: {reason}")
        yield Release(request.param, kafka.bootstrap_servers)


@pytest.fixture
def release(request: pytest.FixtureRequest, running: Release) -> Iterator[Release]:
    """A broker, and what a test finds out about it."""
    running.result = "yes"
    yield running
    feature = request.node.get_closest_marker("feature").args[0]
    if codec := getattr(request.node, "callspec", None) and request.node.callspec.params.get("codec"):
        feature = f"{feature}: {codec}"
    request.node.user_properties.append(("compatibility", (running.version, feature, running.result)))


_results: dict[str, dict[str, str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what came of a test; what it found out is known when its fixtures are gone."""
    if report.when == "call":
        _outcomes[report.nodeid] = report.outcome
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == "compatibility":
                version, feature, result = value
                passed = _outcomes.get(report.nodeid) == "passed"
                _results.setdefault(feature, {})[version] = result if passed else "no"


_outcomes: dict[str, str] = {}


def pytest_sessionfinish() -> None:
    """Write the page."""
    path = os.environ.get("KLAMM_COMPATIBILITY")
    if not path or not _results:
        return
    versions = sorted({version for found in _results.values() for version in found}, key=release_number)
    rows = [
        ["", *_results],
        *([version, *(found.get(version, "") for found in _results.values())] for version in versions),
    ]
    # Releases go across: there are fewer of them than of features.
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*rows, strict=True)]
    lines.insert(1, "|---" * (len(versions) + 1) + "|")
    Path(path).write_text(HEAD + "\n" + "\n".join(lines) + "\n" + NOTES, "utf-8")
