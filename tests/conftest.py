"""Shared fixtures: the brokers, topic names, and a summary of the tests of each broker.

A test with the fixture `broker` runs against the dev broker ("dev") and against Apache Kafka ("real"). If the two
differ, the dev broker is wrong. Both run for the whole session and topics have unique names. A test that stops, fills
or reconfigures its broker starts its own (`klamm.testing.DevBroker`, `kafka_broker.RealKafka`).

A machine that cannot run Kafka skips the tests against it. The summary counts all skips by reason.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pytest

import lanes
from kafka_broker import NO_RETENTION, VERSION, RealKafka
from running import or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from secured import Secured

# What a shell starts in the background ignores Ctrl+C, and so would the programs that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# PySpark starts its workers with the first `python3` it finds, which has no klamm.
os.environ["PYSPARK_PYTHON"] = sys.executable

# A broker's fixture, and its name in the summary.
BROKERS = {
    "dev": ("dev_broker", "the dev broker"),
    "dev-v1": ("dev_broker_v1", "the dev broker with version 1 of transactions"),
    "real": ("real_kafka", f"Apache Kafka {VERSION}"),
    "real-v1": ("real_kafka_v1", f"Apache Kafka {VERSION} with version 1 of transactions"),
}
# The same of those that ask who comes in.
SECURED = {
    "dev-secured": ("dev_secured", "dev brokers that ask for TLS and SASL"),
    "real-secured": ("real_secured", f"Apache Kafka {VERSION} that asks for TLS and SASL"),
}

_topic_numbers = count(1)


@dataclass(frozen=True)
class Broker:
    """A running broker and its properties."""

    name: str
    bootstrap_servers: str
    controller: str | None = None


@dataclass(frozen=True)
class Registry:
    """A running schema registry."""

    name: str
    url: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses a lane."""
    lanes.add_option(parser)


@pytest.hookimpl(trylast=True)  # after the terminal has its reporter
def pytest_configure(config: pytest.Config) -> None:
    """Select the lane's tests, and print failures at once, in the process that has the terminal."""
    config.pluginmanager.register(lanes.Lane(config.getoption("--lane")))
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        config.pluginmanager.register(lanes.Failures(reporter))


@pytest.fixture(scope="session")
def dev_broker() -> Iterator[Broker]:
    """Three nodes of the embedded broker."""
    from klamm.testing import DevBroker

    with DevBroker(brokers=3, config=NO_RETENTION) as running:
        yield Broker("dev", running.bootstrap_servers)


@pytest.fixture(scope="module")
def dev_broker_v1() -> Iterator[Broker]:
    """Three nodes with the transactions of brokers before Kafka 4.0 (KIP-890)."""
    from klamm.testing import DevBroker

    with DevBroker(brokers=3, transaction_version=1, config=NO_RETENTION) as running:
        yield Broker("dev-v1", running.bootstrap_servers)


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[Broker]:
    """One node of Apache Kafka, or a skip."""
    yield from _running("real", RealKafka())


@pytest.fixture(scope="module")
def real_kafka_v1() -> Iterator[Broker]:
    """One node with the transactions of brokers before Kafka 4.0 (KIP-890)."""
    yield from _running("real-v1", RealKafka(features={"transaction.version": 1}))


def _running(name: str, kafka: RealKafka) -> Iterator[Broker]:
    with or_skip(kafka):
        yield Broker(name, kafka.bootstrap_servers, kafka.controller)


@pytest.fixture(scope="session")
def dev_secured() -> Iterator[Secured]:
    """Dev brokers that require TLS and SASL."""
    import secured

    with secured.dev_brokers() as running:
        yield running


@pytest.fixture(scope="session")
def real_secured() -> Iterator[Secured]:
    """One node of Apache Kafka that requires TLS and SASL, or a skip."""
    import secured

    with or_skip(secured.real_kafka()) as kafka:
        yield kafka


@pytest.fixture(params=["dev-secured", "real-secured"])
def secured(request: pytest.FixtureRequest) -> Secured:
    """Each of the two secured brokers."""
    running: Secured = request.getfixturevalue(SECURED[request.param][0])
    return running


@pytest.fixture(scope="session", params=["dev", "real"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each of the two brokers in turn."""
    running: Broker = request.getfixturevalue(BROKERS[request.param][0])
    return running


@pytest.fixture(scope="session")
def dev_registry() -> Iterator[Registry]:
    """The schema registry of the dev broker."""
    from klamm.registry.dev import DevRegistry

    with DevRegistry() as running:
        yield Registry("dev-registry", running.url)


@pytest.fixture(scope="session")
def real_registry() -> Iterator[Registry]:
    """Apicurio Registry, or a skip."""
    from apicurio import Apicurio

    with or_skip(Apicurio(), "Apicurio Registry") as running:
        yield Registry("real-registry", running.url)


@pytest.fixture(scope="session", params=["dev-registry", "real-registry"])
def registry(request: pytest.FixtureRequest) -> Registry:
    """Each of the two schema registries in turn."""
    running: Registry = request.getfixturevalue(request.param.replace("-", "_"))
    return running


@pytest.fixture(scope="session")
def dev_pair(dev_broker: Broker, dev_registry: Registry) -> tuple[Broker, Registry]:
    """The dev broker and the registry of the dev broker."""
    return dev_broker, dev_registry


@pytest.fixture(scope="session")
def real_pair(real_kafka: Broker, real_registry: Registry) -> tuple[Broker, Registry]:
    """Apache Kafka and Apicurio Registry, or a skip."""
    return real_kafka, real_registry


@pytest.fixture(scope="session", params=["dev", "real"])
def pair(request: pytest.FixtureRequest) -> tuple[Broker, Registry]:
    """Each pair of a broker and a schema registry in turn."""
    running: tuple[Broker, Registry] = request.getfixturevalue(f"{request.param}_pair")
    return running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A unique topic name that contains the name of the test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{name[:80].strip('-')}-{next(_topic_numbers)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record the broker of each test."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        chosen = next((params[name] for name in ("broker", "secured", "pair") if name in params), None)
        for name, (fixture, _) in (BROKERS | SECURED).items():
            if name == chosen or fixture in getattr(item, "fixturenames", ()):
                item.user_properties.append(("broker", name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print reports of tests, the number of tests for each broker, and skips by reason."""
    for report in (value for _, value in _properties(terminalreporter, "report")):
        terminalreporter.section("report")
        terminalreporter.write_line(report)
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in BROKERS | SECURED}
    for outcome, name in _properties(terminalreporter, "broker"):
        outcomes[name][outcome] += 1
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped"))
    terminalreporter.section("brokers and skips")
    for name, (_, title) in (BROKERS | SECURED).items():
        counted = ", ".join(f"{number} {outcome}" for outcome, number in outcomes[name].items())
        terminalreporter.line(f"against {title}: {counted or 'no tests'}")
    for reason, number in reasons.most_common():
        terminalreporter.line(f"{number} SKIPPED: {reason}")


def _properties(terminalreporter: pytest.TerminalReporter, key: str) -> Iterator[tuple[str, str]]:
    """Return the properties that tests recorded under a name, with the outcome of each test. Processes of pytest-xdist
    send them too.
    """
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, "user_properties", ()):  # a file that cannot be imported has none
                if name == key:
                    yield outcome, value
