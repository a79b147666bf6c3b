"""Runs the clients of the soak on three nodes of the dev broker, which gives unusual answers: a new fault every five seconds.

    KLAMM_SOAK_SECONDS=600 pytest -o faulthandler_timeout=1500 tests/soak/test_soak_responses.py

The faults are what Kafka and its proxies do rarely: unexpected error codes, long throttle times, telemetry that is
answered late, and a schema registry that is away. One transaction in ten is open for longer than its timeout.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import klamm
from klamm.testing import DevBroker
from soaking import PARTITIONS, SECONDS, TOPICS, Clients, Faults, soak

if TYPE_CHECKING:
    from collections.abc import Callable

CODES = ["UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "UNSUPPORTED_VERSION", "KAFKA_STORAGE_ERROR", "NETWORK_EXCEPTION"]
READING = ["Fetch", "ListOffsets", "OffsetFetch", "OffsetForLeaderEpoch"]
JOINING = ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit"]
THROTTLED = ["Produce", "Fetch", "Metadata", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "EndTxn"]
LONG_S = 2_000_000


class Responses(Faults):
    """The faults: in what brokers and the registry answer."""

    def __init__(self, broker: DevBroker) -> None:
        super().__init__()
        self.broker = broker

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.refused_reads,
            self.refused_groups,
            self.refused_metadata,
            self.throttles,
            self.slow_telemetry,
            self.registry_away,
        ]

    def heal(self) -> None:
        self.broker.clear_faults()
        self.broker.schema_registry.clear_faults()

    def refuse(self, apis: list[str]) -> None:
        for api in self.chance.sample(apis, min(len(apis), 2)):
            self.broker.fault(api, "error", error=self.chance.choice(CODES), times=self.chance.randint(1, 3))

    def refused_reads(self) -> None:
        self.refuse(READING)

    def refused_groups(self) -> None:
        self.refuse(JOINING)

    def refused_metadata(self) -> None:
        self.refuse(["Metadata"])

    def throttles(self) -> None:
        self.broker.fault(self.chance.choice(THROTTLED), "throttle", seconds=LONG_S)

    def slow_telemetry(self) -> None:
        self.broker.fault("PushTelemetry", "delay", seconds=30, times=None)

    def registry_away(self) -> None:
        self.broker.schema_registry.fault(self.chance.choice(["drop", "error", "garbage"]), times=None)


@pytest.mark.skipif(sys.platform != "linux", reason="memory, descriptors and threads come from /proc")
@pytest.mark.timeout(SECONDS + (600 if SECONDS > 300 else 240))
def test_unusual_responses_lose_nothing_and_stop_no_client(record_property):
    with DevBroker(brokers=3, telemetry=True, schema_registry=True) as broker:
        broker.want_telemetry(interval=1)
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(dict.fromkeys(TOPICS, klamm.NewTopic(partitions=PARTITIONS, replication_factor=3)))
        settings = {"registry": broker.schema_registry.url, "transaction_timeout_ms": 2_000, "late": 0.1}
        with Clients(broker.bootstrap_servers, **settings) as clients:
            soak(clients, Responses(broker), broker.bootstrap_servers, record_property)
