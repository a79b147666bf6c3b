"""Log lines: what the clients log, where it goes, and what must not get into it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

import klamm
import klamm.logs
from klamm.errors import KafkaError, KafkaTimeoutError, NetworkError
from klamm.testing import DevBroker
from log_lines import Lines, collected
from settled import until

CLOSED = "127.0.0.1:1"


@pytest.fixture
def lines():
    with collected() as found:
        yield found


def test_connections_are_logged_once_with_client_and_broker(broker, lines, topic):
    with klamm.Producer(broker.bootstrap_servers, client_id="shop") as producer:
        for _ in range(3):
            producer.send(topic, b"x").result(20)
    record = lines.find(r"connected to ")
    assert (record.name, record.levelno, record.client_id) == ("klamm.network", logging.INFO, "shop")
    assert record.broker in broker.bootstrap_servers
    assert record.getMessage().startswith("[shop] connected to ")
    assert f"(broker {record.broker})" in record.getMessage()
    klamm.logs.flush()
    connected = [text for text in lines.texts() if "connected to" in text]
    assert len(set(connected)) == len(connected), connected


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_logs_coordinator_assignment_and_duration(broker, lines, topic, protocol):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"x").result(20)
    with klamm.Consumer(
        broker.bootstrap_servers, f"g-{topic}", [topic], group_protocol=protocol, auto_offset_reset="earliest"
    ) as consumer:
        while not consumer.poll(5):
            pass
    record = lines.find("the coordinator of group .* is broker")
    assert record.name == "klamm.group"
    assert record.broker
    assert lines.find(r"is a member of group .* after \d+\.\d+ s")
    assert lines.find(rf"got 1 partition in group .*: {topic}-0")
    start = lines.find("reading starts at offset 0")
    assert (start.name, start.topic, start.partition) == ("klamm.consumer", topic, 0)


def test_debug_has_each_request_with_version_and_latency(broker):
    with collected(logging.DEBUG) as lines, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.describe_cluster()
        record = lines.find(r"Metadata version \d+ was answered after \d+\.\d+ ms")
        assert (record.name, record.levelno) == ("klamm.network", logging.DEBUG)
        assert record.broker


def test_a_level_that_changes_later_counts_from_then_on(broker):
    with klamm.Admin(broker.bootstrap_servers) as admin, collected(logging.WARNING) as lines:
        admin.describe_cluster()
        logging.getLogger("klamm.network").setLevel(logging.DEBUG)
        try:
            admin.describe_cluster()
            lines.find("was answered after")
        finally:
            logging.getLogger("klamm.network").setLevel(logging.NOTSET)
        klamm.logs.flush()
        before = len(lines.records)
        admin.describe_cluster()
        klamm.logs.flush()
        assert len(lines.records) == before


def test_a_client_writes_to_its_own_logger(broker):
    own, lines = logging.Logger("own"), Lines()  # noqa: LOG001 - it has no parent
    own.addHandler(lines)
    with collected(logging.DEBUG) as others:
        with klamm.Admin({"bootstrap.servers": broker.bootstrap_servers, "logger": own}) as admin:
            admin.describe_cluster()
        with klamm.Admin(broker.bootstrap_servers, logger=logging.LoggerAdapter(own, {"shop": 1})) as admin:
            admin.describe_cluster()
        record = lines.find("connected to")
        assert record.name == "own"
        assert not others.records


def test_log_level_and_debug_are_those_of_librdkafka(broker):
    with collected(logging.DEBUG) as lines:
        with klamm.Admin({"bootstrap.servers": broker.bootstrap_servers, "log_level": 4}) as admin:
            admin.describe_cluster()
        klamm.logs.flush()
        assert not lines.records
    with collected(logging.WARNING) as lines:
        with klamm.Admin({"bootstrap.servers": broker.bootstrap_servers, "debug": "broker,cgrp"}) as admin:
            admin.describe_cluster()
        assert lines.find("was answered after").levelno == logging.DEBUG
    with pytest.raises(klamm.errors.ConfigError, match="debug cannot be"):
        klamm.Admin(broker.bootstrap_servers, debug="everything")
    with pytest.raises(klamm.errors.ArgumentError, match="logger has to be"):
        klamm.Admin(broker.bootstrap_servers, logger=5)


class Refusing(logging.Handler):
    """A handler that raises."""

    def handle(self, _):
        raise RuntimeError("no disk")


def test_a_logger_that_raises_is_reported_once_and_the_client_continues(broker, topic, capfd):
    own = logging.Logger("own")  # noqa: LOG001 - it has no parent
    own.addHandler(Refusing())
    with klamm.Producer(broker.bootstrap_servers, logger=own) as producer:
        for _ in range(5):
            producer.send(topic, b"x").result(20)
    assert klamm.logs.flush()
    printed = [line for line in capfd.readouterr().err.splitlines() if "no disk" in line]
    assert len(printed) == 1
    assert "the client continues" in printed[0]


def test_a_logger_that_blocks_stops_no_client_and_lines_are_dropped_and_counted(broker):
    blocked, go_on = threading.Event(), threading.Event()

    class Blocking(Lines):
        def emit(self, record):
            if not go_on.is_set():
                blocked.set()
                go_on.wait(60)
            super().emit(record)

    own, lines = logging.Logger("own"), Blocking()  # noqa: LOG001 - it has no parent
    own.addHandler(lines)
    try:
        with klamm.Admin(broker.bootstrap_servers, logger=own) as admin:
            admin.describe_cluster()
            assert blocked.wait(10)
            with collected(logging.WARNING) as others:
                for _ in range(10_500):
                    admin.describe_cluster()
                go_on.set()
                assert others.find(r"\d+ log lines were dropped", 60)
    finally:
        go_on.set()


FORK = """
import logging, os, sys, klamm, klamm.logs
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(process)d %(message)s")
with klamm.Admin(sys.argv[1], client_id="parent") as admin:
    admin.describe_cluster()
    klamm.logs.flush()
    child = os.fork()
    if child == 0:
        with klamm.Admin(sys.argv[1], client_id="child") as other:
            other.describe_cluster()
        print("threads", [t.name for t in __import__("threading").enumerate()], flush=True)
        sys.exit(0)
    os.waitpid(child, 0)
    admin.describe_cluster()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_after_a_fork_has_a_drain_of_its_own(dev_broker):
    options = [sys.executable, "-W", "ignore", "-c", FORK, dev_broker.bootstrap_servers]
    done = subprocess.run(options, capture_output=True, text=True, timeout=60, check=True)
    by_child = {line.split()[0] for line in done.stdout.splitlines() if "[child] connected" in line}
    by_parent = {line.split()[0] for line in done.stdout.splitlines() if "[parent] connected" in line}
    assert len(by_child) == len(by_parent) == 1, done
    assert by_child != by_parent
    assert done.stderr == ""


AT_EXIT = """
import logging, sys, klamm
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
admin = klamm.Admin(sys.argv[1], on_error=print)
admin.describe_cluster()
"""


def test_the_last_lines_are_written_when_the_program_ends(dev_broker):
    options = [sys.executable, "-c", AT_EXIT, dev_broker.bootstrap_servers]
    done = subprocess.run(options, capture_output=True, text=True, timeout=60, check=True)
    assert "connected to" in done.stdout
    assert done.stderr == ""


def test_warnings_are_seen_without_any_configuration_of_logging():
    program = f"import klamm\nklamm.Consumer({CLOSED!r}, topics=['t']).poll(2)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "no broker can be reached" in done.stderr
    assert CLOSED in done.stderr


def silent_consumer(broker):
    return klamm.Consumer(broker, topics=["t"])


def silent_member(broker):
    return klamm.Consumer(broker, "g", ["t"])


def silent_share_member(broker):
    return klamm.ShareConsumer(broker, "g", ["t"])


@pytest.mark.parametrize("make", [silent_consumer, silent_member, silent_share_member])
def test_a_closed_port_is_logged_at_once_and_then_less_often(make, lines):
    start = time.monotonic()
    consumer = make(CLOSED)
    try:
        consumer.poll(0.5)
        record = lines.find("no broker can be reached", 1.0)
        assert time.monotonic() - start < 10
        assert record.levelno == logging.WARNING
        assert CLOSED in record.getMessage()
        assert "Connection refused" in record.getMessage()
        consumer.poll(3)
        klamm.logs.flush()
        repeated = [each.name for each in lines.records if "no broker can be reached" in each.getMessage()]
        assert repeated == ["klamm.network"] * len(repeated)
        assert len(repeated) <= 4
    finally:
        consumer.close(0)


def test_a_broker_that_dies_and_comes_back_is_logged(lines):
    with DevBroker() as broker:
        address = broker.bootstrap_servers
        with klamm.Producer(address) as producer:
            producer.send("t", b"x").result(20)
            with klamm.Consumer(address, topics=["t"], auto_offset_reset="earliest") as consumer:
                assert len(consumer.poll(20)) == 1
                broker.kill(1)
                consumer.poll(0.5)
                lines.find("lost the connection to broker", 5)
                assert address in lines.find("no broker can be reached", 5).getMessage()
                broker.start(1)
                consumer.poll(3)
                lines.find("brokers can be reached again", 20)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_missing_topic_in_a_group_is_a_warning(broker, lines, topic, protocol):
    options = {"group_protocol": protocol, "allow_auto_create_topics": False}
    with klamm.Consumer(broker.bootstrap_servers, f"g-{topic}", [topic], **options) as consumer:
        consumer.poll(1.5)
        record = lines.find("the topic is not available: UNKNOWN_TOPIC_OR_PARTITION", 5, logging.WARNING)
        assert record.topic == topic
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({topic: klamm.NewTopic(partitions=1)})
        consumer.poll(3)
        assert lines.find("the topic is available now", 20).topic == topic


def test_a_topic_that_a_producer_creates_is_no_warning(broker, lines, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"x").result(20)
    klamm.logs.flush()
    assert not [r.getMessage() for r in lines.records if r.levelno >= logging.WARNING and "topic" in r.getMessage()]


def test_records_that_expire_are_a_warning(lines):
    with klamm.Producer(CLOSED, delivery_timeout_ms=300, max_block_ms=300, request_timeout_ms=100) as producer:
        with pytest.raises(KafkaError):
            producer.send("t", b"x").result(20)
        record = lines.find("was not acknowledged within", 5, logging.WARNING)
        assert (record.name, record.topic) == ("klamm.producer", "t")


@pytest.mark.parametrize("end", ["close", "garbage"])
def test_records_that_a_producer_does_not_deliver_before_it_ends_are_a_warning(lines, end):
    producer = klamm.Producer(CLOSED, client_id="shop")
    producer.send_nowait("t", b"x")
    producer.send_nowait("t", b"y")
    if end == "close":
        with pytest.raises(KafkaTimeoutError):
            producer.close(0)
    else:
        with pytest.warns(ResourceWarning):
            del producer
    record = lines.find("2 records were not acknowledged before the producer ended, and may be lost", 5)
    assert (record.name, record.levelno, record.client_id) == ("klamm.producer", logging.WARNING, "shop")


def test_a_producer_that_has_delivered_its_records_ends_without_a_warning(broker, lines, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_nowait(topic, b"x")
    klamm.logs.flush()
    assert not [text for text in lines.texts() if "may be lost" in text]


def test_a_listener_that_demands_a_login_is_a_few_warnings(lines):
    with (
        DevBroker(sasl={"PLAIN": {"user": "secret"}}) as broker,
        klamm.Admin(broker.bootstrap_servers, default_api_timeout_ms=2500) as admin,
    ):
        with pytest.raises(NetworkError, match="SASL_PLAINTEXT"):
            admin.describe_cluster()
        klamm.logs.flush()
    warnings = [record for record in lines.records if record.levelno >= logging.WARNING]
    # At once, and again after 1 and 2 seconds.
    assert 1 <= len(warnings) <= 3, lines.texts()


def test_many_batches_that_fail_are_a_few_warnings(lines):
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers, batch_size=200) as producer:
        producer.send("t", b"x", partition=0).result(20)
        broker.fault("Produce", "error", error="TOPIC_AUTHORIZATION_FAILED", times=None)
        deliveries = [producer.send("t", b"x" * 150, partition=0) for _ in range(300)]
        for delivery in deliveries:
            with pytest.raises(KafkaError):
                delivery.result(20)
    klamm.logs.flush()
    warnings = [record for record in lines.records if record.name == "klamm.producer"]
    assert 1 <= len(warnings) <= 10, lines.texts()
    assert warnings[0].topic == "t"


def test_a_member_that_does_not_poll_is_warned_before_it_leaves(dev_broker, lines, topic):
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        producer.send(topic, b"x").result(20)
    options = {"max_poll_interval_ms": 1500, "session_timeout_ms": 6000, "auto_offset_reset": "earliest"}
    with klamm.Consumer(dev_broker.bootstrap_servers, f"g-{topic}", [topic], **options) as consumer:
        while not consumer.poll(5):
            pass
        lines.find("is about to leave group .* max.poll.interval.ms is 1500", 10, logging.WARNING)
        lines.find("leaves group .* max.poll.interval.ms is 1500", 10, logging.WARNING)
        consumer.close(commit=False)


def test_a_reset_offset_is_logged_with_the_number_of_skipped_records(dev_broker, lines, topic):
    with klamm.Producer(dev_broker.bootstrap_servers) as producer, klamm.Admin(dev_broker.bootstrap_servers) as admin:
        for _ in range(5):
            producer.send(topic, b"x").result(20)
        partition = klamm.TopicPartition(topic, 0)
        admin.delete_records({partition: 3})
        with klamm.Consumer(dev_broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, offset=1)])
            assert len(consumer.poll(20)) == 2
        record = lines.find("the offset was reset from 1 to 3, which skips 2 records")
        assert (record.topic, record.partition) == (topic, 0)


SECRETS = ["Tr0ub4dor&3", "t0ken-of-alice"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_no_secret_is_logged(mechanism):
    with collected(logging.DEBUG) as lines:
        password, token = SECRETS
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "default_api_timeout_ms": 2000}
        if mechanism == "OAUTHBEARER":
            login["sasl_oauth_token_provider"] = lambda: (token, time.time() + 3600)
            sasl = {"OAUTHBEARER": None}
        else:
            login |= {"sasl_username": "alice", "sasl_password": password}
            sasl = {mechanism: {"alice": "another"}}
        with DevBroker(sasl=sasl) as broker:
            with klamm.Admin(broker.bootstrap_servers, debug="all", **login) as admin, suppress(KafkaError):
                admin.describe_cluster()
            good = broker.client_config("alice", mechanism) if mechanism != "OAUTHBEARER" else None
            if good:
                with klamm.Admin({**good, "debug": "all"}) as admin:
                    admin.describe_cluster()
        klamm.logs.flush()
        text = "\n".join(repr(vars(record)) for record in lines.records)
        assert text
        for secret in [*SECRETS, "another"]:
            assert secret not in text
        if mechanism != "OAUTHBEARER":
            assert lines.find("authentication with .* failed", 5, logging.WARNING).name == "klamm.auth"


def test_on_error_is_called_for_a_dead_cluster_in_a_thread_of_its_own():
    called, errors = threading.Event(), []

    def on_error(error):
        errors.append((error, threading.current_thread().name))
        called.set()
        raise RuntimeError("a callback that raises")

    for make in (
        lambda: klamm.Consumer(CLOSED, topics=["t"], on_error=on_error),
        lambda: klamm.ShareConsumer(CLOSED, "g", ["t"], on_error=on_error),
        lambda: klamm.Consumer({"bootstrap.servers": CLOSED, "error_cb": on_error}, "g", ["t"]),
    ):
        called.clear()
        errors.clear()
        client = make()
        try:
            client.poll(1)
            assert called.wait(10)
        finally:
            client.close(0)
        error, thread = errors[0]
        assert isinstance(error, klamm.errors.NetworkError)
        assert CLOSED in str(error)
        assert thread == "klamm-on-error"
        for each in threading.enumerate():
            if each.name == "klamm-on-error":
                each.join(10)
                assert not each.is_alive()


def test_klamm_consume_prints_that_its_broker_died_and_keeps_retrying():
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"x").result(20)
        program = [sys.executable, "-m", "klamm", "consume", "t", "--bootstrap", broker.bootstrap_servers]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            try:
                assert running.stdout.readline() == "x\n"
                broker.kill(1)
                # The clients warn, or the command itself if its own check was still running.
                line = running.stderr.readline()
                assert line.startswith(
                    ("klamm: warning: [klamm] no broker can be reached: ", "klamm: cannot connect to ")
                )
                assert broker.bootstrap_servers in line
                assert running.poll() is None
            finally:
                running.kill()


def test_an_error_names_host_port_and_node():
    with klamm.Consumer(CLOSED, topics=["t"], default_api_timeout_ms=500) as consumer:
        with pytest.raises(klamm.errors.NetworkError) as caught:
            consumer.partitions_for("t")
        address = caught.value.broker
        assert (address, address.host, address.port, address.node_id) == (CLOSED, "127.0.0.1", 1, None)
        assert CLOSED in str(caught.value)
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        admin.describe_cluster()
        broker.fault("Metadata", "drop", times=None)
        broker.fault("DescribeCluster", "drop", times=None)
        with pytest.raises(KafkaError) as caught:
            admin.describe_cluster(timeout=1)
        address = caught.value.broker
        assert (address, address.host, address.node_id) == (broker.bootstrap_servers, "127.0.0.1", 1)


def test_a_handler_that_sends_debug_lines_through_klamm_comes_to_an_end():
    with DevBroker() as dev, klamm.Producer(dev.bootstrap_servers) as producer:
        handler = Sending(producer)
        logger, level = logging.getLogger("klamm"), logging.getLogger("klamm").level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        try:
            producer.send("t", b"first").result(20)
            until(handler.is_settled)
            assert handler.count > 0
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


class Sending(logging.Handler):
    """Sends each line to a topic."""

    def __init__(self, producer):
        super().__init__()
        self.producer = producer
        self.count = 0

    def emit(self, record):
        self.count += 1
        self.producer.send_nowait("logs", record.getMessage().encode())

    def is_settled(self):
        before = self.count
        klamm.logs.flush(1)
        self.producer.flush(20)
        klamm.logs.flush(1)
        return self.count == before
