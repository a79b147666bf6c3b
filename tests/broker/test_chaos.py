"""A real broker behind a faulty network: acknowledged records are in the log once, and all clients recover."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import threading
import time
from collections import deque

import pytest

import klamm
from chaos_proxy import TO_BROKER, TO_CLIENT, ChaosProxy
from faults import closed_port
from kafka_broker import KafkaUnavailable, free_ports
from kafka_cluster import KafkaCluster
from klamm.errors import DecodeError, KafkaTimeoutError, NetworkError
from settled import until

PARTITIONS = 2
TIMEOUT_S = 60
IN_FLIGHT = 50
STEP = 30
"""Number of records to write and read before the next fault."""
QUICK = {"request_timeout_ms": 1_000, "socket_connection_setup_timeout_ms": 1_000, "reconnect_backoff_max_ms": 100}
"""Clients give up a silent connection after one second instead of 30."""
NAME = "klamm-kafka.test"


class Node:
    """A node of Kafka that advertises the proxy's address."""

    def __init__(self, cluster, proxy, named_port):
        self.cluster, self.proxy, self.named_port = cluster, proxy, named_port


@pytest.fixture(scope="module")
def node():
    with ChaosProxy() as proxy:
        (named_port,) = free_ports(1)
        listener_addresses = [{"CLIENTS": proxy.address, "NAMED": f"{NAME}:{named_port}"}]
        try:
            with KafkaCluster(1, listener_addresses=listener_addresses) as cluster:
                proxy.target = cluster.listener_addresses[0]["CLIENTS"]
                yield Node(cluster, proxy, named_port)
        except KafkaUnavailable as reason:
            pytest.skip(f"real Kafka: {reason}")


@pytest.fixture(autouse=True)
def healed(node):
    yield
    node.proxy.heal()


def create(node, topic):
    with klamm.Admin(node.cluster.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})


def value(number):
    return b"number=%08d" % number


def numbers_by_partition(node, topic):
    """Read the log without the proxy."""
    table = klamm.read_table(node.cluster.bootstrap_servers, topic, columns=["partition", "value"])
    found = {partition: [] for partition in range(PARTITIONS)}
    for row in table.to_pylist():
        found[row["partition"]].append(int(row["value"].removeprefix(b"number=")))
    return found


class Flow:
    """A producer and a group member, each on a thread, which continue after errors."""

    def __init__(self, node, topic):
        self.servers, self.topic, self.bad_data = node.proxy.address, topic, 0
        self.acknowledged, self.seen, self.errors = 0, set(), []
        self._stops = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._write, self._read)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stops.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        assert not any(thread.is_alive() for thread in self._threads)

    def goes_on(self):
        """Wait until new records are acknowledged and read."""
        goal = self.acknowledged + IN_FLIGHT + STEP
        deadline = time.monotonic() + TIMEOUT_S
        while self.acknowledged < goal or len(self.seen) < goal:
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, f"{self.acknowledged} acknowledged, {len(self.seen)} read, of {goal}"
            self._stops.wait(0.01)

    def _run(self, work):
        try:
            work()
        except Exception as error:  # noqa: BLE001 - for the thread that waits
            self.errors.append(error)

    def _write(self):
        waiting = deque()
        with klamm.Producer(self.servers, retry_backoff_ms=20, **QUICK) as producer:
            while waiting or not self._stops.is_set():
                if not self._stops.is_set():
                    number = self.acknowledged + len(waiting)
                    waiting.append(producer.send(self.topic, value(number), partition=number % PARTITIONS))
                if len(waiting) == IN_FLIGHT or self._stops.is_set():
                    waiting.popleft().result(TIMEOUT_S)
                    self.acknowledged += 1

    def _read(self):
        with klamm.Consumer(
            self.servers,
            group_id=self.topic,
            topics=[self.topic],
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            **QUICK,
        ) as consumer:
            while not self._stops.is_set():
                try:
                    records = consumer.poll(0.1)
                except DecodeError:
                    self.bad_data += 1
                    continue
                self.seen.update(int(record.value.removeprefix(b"number=")) for record in records)


def cut(node, flow):
    for reset in (False, True, False, True):
        assert node.proxy.cut(reset=reset)
        flow.goes_on()


def half_open(node, flow):
    assert node.proxy.half_open()
    flow.goes_on()


def silence(node, flow):
    known = node.proxy.connections
    node.proxy.silent = True
    node.proxy.cut()
    # A client that connects now gets no answer until it connects again.
    until(lambda: node.proxy.connections >= known + 4)
    node.proxy.heal()
    flow.goes_on()


def latency(node, flow):
    node.proxy.latency = 0.05
    flow.goes_on()


def drip(node, flow):
    node.proxy.drip = (100, 0.002)
    flow.goes_on()


def late(node, flow):
    """The first connection is served last."""
    node.proxy.lateness = iter([0.8, 0.6, 0.4, 0.2])
    node.proxy.cut()
    flow.goes_on()


def killed(node, flow):
    node.cluster.kill(1)
    node.cluster.start_node(1)
    flow.goes_on()


def corrupted_length(direction):
    def fault(node, flow):
        for _ in range(3):
            assert node.proxy.corrupt(direction).wait(TIMEOUT_S)
            flow.goes_on()

    return fault


def corrupted_correlation(node, flow):
    assert node.proxy.corrupt(TO_CLIENT, at=7).wait(TIMEOUT_S)
    flow.goes_on()


def corrupted_value(direction):
    def fault(node, flow):
        for _ in range(3):
            assert node.proxy.corrupt(direction, after=b"number=").wait(TIMEOUT_S)
            flow.goes_on()
        if direction == TO_CLIENT:
            assert flow.bad_data

    return fault


FAULTS = {
    "cut": cut,
    "half open": half_open,
    "silence": silence,
    "latency": latency,
    "drip": drip,
    "late": late,
    "wrong length, asked": corrupted_length(TO_BROKER),
    "wrong length, answered": corrupted_length(TO_CLIENT),
    "wrong correlation": corrupted_correlation,
    "wrong record, written": corrupted_value(TO_BROKER),
    "wrong record, read": corrupted_value(TO_CLIENT),
    "killed": killed,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_acknowledged_is_there_once_and_is_read(node, topic, fault):
    create(node, topic)
    with Flow(node, topic) as flow:
        flow.goes_on()
        fault(node, flow)
        node.proxy.heal()
        flow.goes_on()
    assert flow.errors == []
    found = numbers_by_partition(node, topic)
    assert found == {partition: list(range(partition, flow.acknowledged, PARTITIONS)) for partition in found}


def test_no_call_waits_longer_than_its_timeout(node, topic):
    create(node, topic)
    tp = klamm.TopicPartition(topic, 0)
    servers = node.proxy.address
    with (
        klamm.Producer(servers, delivery_timeout_ms=1_500, **QUICK) as producer,
        klamm.Consumer(servers, group_id=topic, enable_auto_commit=False, **QUICK) as consumer,
        klamm.Admin(servers, default_api_timeout_ms=1_500, **QUICK) as admin,
    ):
        producer.send(topic, value(0), partition=0).result(TIMEOUT_S)
        consumer.assign([tp])
        consumer.commit({tp: 0})
        admin.list_topics()
        node.proxy.silent = True
        began = time.monotonic()
        delivery = producer.send(topic, value(1), partition=0)
        with pytest.raises(KafkaTimeoutError):
            delivery.result(TIMEOUT_S)
        with pytest.raises((KafkaTimeoutError, NetworkError)):
            admin.list_topics()
        with pytest.raises(KafkaTimeoutError):
            consumer.commit({tp: 1}, timeout=1.5)
        with pytest.raises((KafkaTimeoutError, NetworkError)):
            consumer.end_offsets([tp], timeout=1.5)
        assert len(consumer.poll(1.0)) == 0
        assert time.monotonic() - began < TIMEOUT_S / 2
        node.proxy.heal()
        # A client that failed one call works for the next.
        producer.send(topic, value(2), partition=0).result(TIMEOUT_S)
        consumer.commit({tp: 1})
        admin.list_topics(timeout=TIMEOUT_S)
    numbers = numbers_by_partition(node, topic)[0]
    assert numbers in ([0, 2], [0, 1, 2])  # the result of the second is unknown


def test_a_corrupt_record_is_an_error_that_says_where_and_the_next_poll_gets_the_record(node, topic):
    create(node, topic)
    with klamm.Producer(node.cluster.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, value(number), partition=0).result(TIMEOUT_S)
    tp = klamm.TopicPartition(topic, 0, offset=0)
    done = node.proxy.corrupt(TO_CLIENT, after=b"number=00000004")
    with klamm.Consumer(node.proxy.address) as consumer:
        consumer.assign([tp])
        found, errors = [], []
        while len(found) < 10:
            try:
                found += consumer.poll(TIMEOUT_S)
            except DecodeError as error:
                errors.append(error)
        assert done.is_set()
        (error,) = errors
        assert topic in error.message
        assert error.hint
    assert [record.value for record in found] == [value(number) for number in range(10)]


def test_a_reader_with_a_large_lag_on_a_slow_link_requests_less_at_a_time(node, topic):
    """As one response, the stored records would take five times the request timeout."""
    create(node, topic)
    payloads = [b"%04d" % number + bytes(1_000) for number in range(1_000)]
    with klamm.Producer(node.cluster.bootstrap_servers, batch_size=16_384) as producer:
        for payload in payloads:
            producer.send(topic, payload, partition=0)
    with klamm.Consumer(node.proxy.address, **QUICK) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, offset=0)])
        node.proxy.drip = (1_000, 0.005)
        found, deadline = [], time.monotonic() + TIMEOUT_S
        while len(found) < len(payloads):
            found += [record.value for record in consumer.poll(1.0)]
            assert time.monotonic() < deadline, f"{len(found)} read, of {len(payloads)}"
    assert found == payloads


def test_dead_entries_of_the_bootstrap_list_cost_nothing_but_time(node, topic):
    create(node, topic)
    with closed_port() as dead, closed_port() as gone, ChaosProxy() as mute:
        mute.silent, mute.target = True, node.proxy.target
        servers = [dead, "no-such-host.invalid:9092", mute.address, gone, node.proxy.address]
        for turn in range(len(servers)):
            with klamm.Producer(servers[turn:] + servers[:turn], **QUICK) as producer:
                producer.send(topic, value(turn), partition=0).result(TIMEOUT_S)
    assert numbers_by_partition(node, topic)[0] == list(range(len(servers)))


def test_a_name_whose_address_changes_is_asked_for_again(node, topic, tmp_path):
    """The client has its own /etc/hosts, which controls the resolver."""
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.2 {NAME}\n")
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']
    alone.append(str(hosts))
    try:
        possible = subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        possible = False
    if not possible:
        pytest.skip("unshare cannot give a process its own /etc/hosts here")
    create(node, topic)
    program = textwrap.dedent("""
        import sys, klamm
        with klamm.Producer(sys.argv[1], request_timeout_ms=1000, reconnect_backoff_max_ms=100) as producer:
            for line in sys.stdin:
                producer.send(sys.argv[2], line.strip().encode(), partition=0).result(60)
                print("written", flush=True)
    """)
    command = [*alone, sys.executable, "-c", program, f"{NAME}:{node.named_port}", topic]
    with contextlib.ExitStack() as running:
        first, second = (ChaosProxy(host, node.named_port) for host in ("127.0.0.2", "127.0.0.3"))
        for proxy in (first, second):
            running.enter_context(proxy)
            proxy.target = node.cluster.listener_addresses[0]["NAMED"]
        client = running.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        running.callback(client.kill)

        def write(number):
            client.stdin.write(value(number).decode() + "\n")
            client.stdin.flush()
            assert client.stdout.readline() == "written\n"

        write(0)
        assert first.connections
        assert not second.connections
        with hosts.open("r+") as file:  # the same file: it is what is mounted
            file.write(f"127.0.0.3 {NAME}\n")
        first.stop()
        write(1)
        assert second.connections
        client.stdin.close()
        assert client.wait(TIMEOUT_S) == 0
    assert numbers_by_partition(node, topic)[0] == [0, 1]
