"""Starts each release of Kafka in turn and writes the results to a page.

`KLAMM_RELEASES` lists the releases or is `all`. The default is the releases whose formats differ most.
`KLAMM_COMPATIBILITY=path` writes the page `docs/compatibility.md` to that path.
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

This table shows which features of klamm work with which release of Kafka. `make test-matrix` runs the tests in
`tests/matrix` against one node of each release, and writes this page.

| result | meaning |
|---|---|
| yes | works; the test has read the data back |
| from 0.11.0 | raises `UnsupportedVersionError` with the first release that has the feature |
| until 3.9 | the same, for a feature that was removed |
| refused | the broker rejects the request |
| error | raises another typed error |
| – | does not apply to this release |
| no | failed |
"""
NOTES = """
## Before Kafka 0.11

* **Idempotence** is on by default, but off for partitions whose leader is older than 0.11. With
  `enable_idempotence=True`, klamm raises an error if a leader is older than 0.11.
* **Record formats.** Records have no headers before 0.11 and no timestamps before 0.10. If you pass headers or a
  timestamp, klamm raises an error instead of dropping them.
* **Rebalance timeout.** JoinGroup of 0.9 and 0.10.0 has no rebalance timeout and uses the session timeout instead. For
  brokers of 0.9 and 0.10.0, the default of `session.timeout.ms` is 30 s, the longest time that 0.9 allows by default.
* **Large messages.** Brokers before 0.10.1 truncate a message that is larger than `max.partition.fetch.bytes`. klamm
  fetches a truncated message again with a larger limit, up to `fetch.max.bytes`.
* **Groups** need 0.9. There is no coordinator before 0.8.2: Kafka 0.8.1 keeps committed offsets in ZooKeeper, and 0.8.0
  does not keep them.
* **`acks` of 2 and more** only work with 0.8. `confluent-kafka` has the same limit for `acks`.

## Detecting the release

Brokers before 0.10 do not support ApiVersions. Kafka 0.8 closes the connection, and Kafka 0.9 does not respond: klamm
then waits for `api.version.request.timeout.ms`. klamm needs three more connections to detect Kafka 0.8, and two more to
detect Kafka 0.9. klamm detects the release once for each broker address. To skip the detection, set
`broker.version.fallback` to the release.
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
        """Return a client's first argument. Only 0.9 needs the whole timeout, and each client here is new."""
        return {"bootstrap.servers": self.bootstrap_servers, "api.version.request.timeout.ms": 200}

    def has(self, since: str) -> bool:
        """Return whether the broker has this release or a later one."""
        return self.number >= release_number(since)

    @contextlib.contextmanager
    def needs(self, since: str) -> Iterator[None]:
        """Run code that needs a release. On older brokers it must raise an error with that release."""
        if self.has(since):
            yield
            return
        self.result = f"from {since}"
        with pytest.raises(klamm.errors.UnsupportedVersionError, match=rf"requires Kafka {re.escape(since)}\b"):
            yield

    def confluent(self, **config: object) -> dict[str, object]:
        """Return the configuration of confluent-kafka."""
        if self.has("0.10.0"):
            return {"bootstrap.servers": self.bootstrap_servers, **config}
        fallback = "0.8.1" if self.version == "0.8.0" else self.version
        old = {"api.version.request": False, "broker.version.fallback": fallback}
        return {"bootstrap.servers": self.bootstrap_servers, **old, **config}


def chosen() -> list[str]:
    """Return the releases to start."""
    names = os.environ.get("KLAMM_RELEASES", ",".join(USUAL))
    return list(RELEASES) if names == "all" else names.split(",")


@pytest.fixture(scope="session", params=chosen())
def running(request: pytest.FixtureRequest) -> Iterator[Release]:
    """A broker that stops before the next one starts."""
    with contextlib.ExitStack() as stack:
        try:
            kafka = stack.enter_context(start_release(request.param))
        except KafkaUnavailable as reason:
            pytest.skip(f"real Kafka: {reason}")
        yield Release(request.param, kafka.bootstrap_servers)


@pytest.fixture
def release(request: pytest.FixtureRequest, running: Release) -> Iterator[Release]:
    """A broker, and the result of a test with it."""
    running.result = "yes"
    yield running
    feature = request.node.get_closest_marker("feature").args[0]
    if codec := getattr(request.node, "callspec", None) and request.node.callspec.params.get("codec"):
        feature = f"{feature}: {codec}"
    request.node.user_properties.append(("compatibility", (running.version, feature, running.result)))


_results: dict[str, dict[str, str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Store the result of a test. It is complete when the test's fixtures have ended."""
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
