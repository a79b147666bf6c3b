"""Runs three producers and five group members on three nodes of Kafka, with a new fault every five seconds.

    make soak                           # an hour of it
    KLAMM_SOAK_SECONDS=600 pytest -o faulthandler_timeout=1500 tests/soak

No acknowledged record may be missing or duplicated, no client may be stuck, and closed clients leave no descriptors and
threads. The summary also has the memory, the exceptions, and the longest time without progress.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from chaos_proxy import TO_BROKER, TO_CLIENT, ChaosProxy
from kafka_broker import KafkaUnavailable, broker_count
from kafka_cluster import KafkaCluster
from klamm import protocol
from klamm.errors import KafkaError
from soaking import GROUPS, PARTITIONS, SECONDS, TOPICS, Clients, Faults, soak

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = (1, 2, 3)
# A broker asks to be left alone for as long as it takes to bring the rate of its window down to the quota. With windows of
# eleven seconds, as by default, and for minutes a quota far below the rate, in which no client may make progress.
QUOTA_WINDOW = {"quota.window.num": 2, "quota.window.size.seconds": 1}
QUOTA = 10_000.0
"""Bytes a second. All clients have the same name and therefore share a quota."""


class Breaker(Faults):
    """The faults: of nodes and connections."""

    def __init__(self, cluster: KafkaCluster, proxies: dict[int, ChaosProxy]) -> None:
        super().__init__()
        self.cluster, self.proxies = cluster, proxies
        self.down: int | None = None
        self.repairs: list[Callable[[], None]] = []

    def kinds(self) -> list[Callable[[], None]]:
        kinds = [self.cut, self.reset, self.half_open, self.silence, self.drip, self.slow, self.garbage]
        if self.is_whole():
            kinds += [self.kill_leader, self.kill_controller, self.kill_coordinator, self.kill_transactions]
            kinds += [self.throttle]
        return kinds

    def fallback(self) -> None:
        self.kill(self.chance.choice(NODES))

    def heal(self) -> None:
        if self.down is not None:
            self.cluster.start_node(self.down)
            self.down = None
        for proxy in self.proxies.values():
            proxy.heal()
        for repair in self.repairs:
            repair()
        self.repairs.clear()

    def is_whole(self) -> bool:
        """Return whether all nodes run and all replicas are in sync, so that one node may fail."""
        if any(broker_count(self.cluster.port(node)) < len(NODES) for node in NODES):
            return False
        try:
            with klamm.Admin(self.cluster.bootstrap_servers) as admin:
                topics = admin.describe_topics(admin.list_topics(internal=True, timeout=3), timeout=3)
        except KafkaError:
            return False
        return all(len(p.isr) == len(p.replicas) for topic in topics.values() for p in topic.partitions)

    def one(self) -> ChaosProxy:
        return self.proxies[self.chance.choice(NODES)]

    def cut(self) -> None:
        for proxy in self.proxies.values():
            proxy.cut()

    def reset(self) -> None:
        self.one().cut(reset=True)

    def half_open(self) -> None:
        self.one().half_open()

    def silence(self) -> None:
        self.one().silent = True

    def drip(self) -> None:
        self.one().drip = (200, 0.01)

    def slow(self) -> None:
        for proxy in self.proxies.values():
            proxy.latency = 0.2

    def garbage(self) -> None:
        """Damage the length of one request and one response."""
        proxy = self.one()
        proxy.corrupt(TO_BROKER)
        proxy.corrupt(TO_CLIENT)

    def throttle(self) -> None:
        """Set quotas until the next fault."""
        self.quota(remove=False)
        self.repairs.append(lambda: self.quota(remove=True))

    def quota(self, *, remove: bool) -> None:
        ops = [{"key": key, "value": QUOTA, "remove": remove} for key in ("producer_byte_rate", "consumer_byte_rate")]
        entity = [{"entityType": "client-id", "entityName": None}]
        fields = {"entries": [{"entity": entity, "ops": ops}], "validateOnly": False}
        answer = self.ask("AlterClientQuotas", 49, 1, fields)
        assert [entry["errorCode"] for entry in answer["entries"]] == [0]

    def kill_leader(self) -> None:
        with klamm.Admin(self.cluster.bootstrap_servers) as admin:
            topic = self.chance.choice(TOPICS)
            self.kill(self.chance.choice(admin.describe_topics([topic])[topic].partitions).leader)

    def kill_controller(self) -> None:
        partition = {"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}
        answer = self.ask("DescribeQuorum", 55, 0, {"topics": [partition]})
        self.kill(answer["topics"][0]["partitions"][0]["leaderId"])

    def kill_coordinator(self) -> None:
        group = self.chance.choice(list(GROUPS))
        with klamm.Admin(self.cluster.bootstrap_servers) as admin:
            self.kill(admin.describe_groups([group])[group].coordinator)

    def kill_transactions(self) -> None:
        """Kill the coordinator of the transactions."""
        kind = 1
        self.kill(self.ask("FindCoordinator", 10, 3, {"key": TOPICS[2], "keyType": kind})["nodeId"])

    def kill(self, node: int) -> None:
        self.down = node if node in NODES else self.chance.choice(NODES)
        self.cluster.kill(self.down)

    def ask(self, api: str, key: int, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a request that klamm's clients do not have, in a flexible version."""
        header = struct.pack(">hhih4sb", key, version, 1, 4, b"soak", 0)
        body = header + protocol.encode(api, "request", version, fields)
        for node in NODES:
            with suppress(OSError, struct.error):
                address = ("127.0.0.1", self.cluster.port(node))
                with socket.create_connection(address, timeout=5) as connection, connection.makefile("rb") as answer:
                    connection.sendall(struct.pack(">i", len(body)) + body)
                    (size,) = struct.unpack(">i", answer.read(4))
                    return protocol.decode(api, "response", version, answer.read(size)[5:])
        raise AssertionError("no node answers")


@pytest.mark.skipif(sys.platform != "linux", reason="memory, descriptors and threads come from /proc")
@pytest.mark.timeout(SECONDS + (600 if SECONDS > 300 else 240))  # below the limit at which the whole run is killed
def test_no_record_is_lost_or_doubled_and_no_client_hangs(record_property):
    with ExitStack() as running:
        proxies = {node: running.enter_context(ChaosProxy()) for node in NODES}
        try:
            listener_addresses = [{"CLIENTS": proxies[node].address} for node in NODES]
            cluster = running.enter_context(KafkaCluster(config=QUOTA_WINDOW, listener_addresses=listener_addresses))
        except KafkaUnavailable as reason:
            pytest.skip(f"real Kafka: {reason}")
        for node, proxy in proxies.items():
            proxy.target = cluster.listener_addresses[node - 1]["CLIENTS"]
        with klamm.Admin(cluster.bootstrap_servers) as admin:
            new = klamm.NewTopic(partitions=PARTITIONS, replication_factor=3)
            admin.create_topics(dict.fromkeys(TOPICS, new))
        servers = ",".join(proxy.address for proxy in proxies.values())
        clients = running.enter_context(Clients(servers))
        soak(clients, Breaker(cluster, proxies), cluster.bootstrap_servers, record_property)
