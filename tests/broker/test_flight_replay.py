"""`DevBroker.replay`: a dump of the flight recorder makes a dev broker that answers as the recorded brokers did."""

from __future__ import annotations

import json
import re

import pytest

import klamm
from klamm.errors import ConfigError, KafkaError, KafkaTimeoutError
from klamm.testing import DevBroker

QUICK = {"delivery_timeout_ms": 3000, "request_timeout_ms": 1000, "default_api_timeout_ms": 3000}
QUICK_SHARE = {"default_api_timeout_ms": 3000}


def failed(call):
    """Return the error of a call."""
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value


def same(first, second):
    """Return whether two errors are the same, but for the address of the broker."""
    texts = [re.sub(r"127\.0\.0\.1:\d+", "", str(error)) for error in (first, second)]
    return type(first) is type(second) and texts[0] == texts[1]


def send(servers, path=None, **options):
    """Send two records, and return the error of the second one."""
    with klamm.Producer(servers, **{**QUICK, **options}) as producer:
        producer.send("orders", b"one", key=b"k").result(20)
        try:
            return failed(producer.send("orders", b"two").result)
        finally:
            if path is not None:
                producer.dump_flight(path)


def read(servers, path=None, count=None, **options):
    """Read the records of a topic from its beginning."""
    found = []
    with klamm.Consumer(servers, topics=["orders"], auto_offset_reset="earliest", **options) as consumer:
        while len(found) < (count or 1):
            found += consumer.poll(20)
        if path is not None:
            consumer.dump_flight(path)
    return [(r.topic, r.partition, r.offset, r.key, r.value, r.headers, r.timestamp_ms) for r in found]


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "INVALID_RECORD", "NOT_LEADER_OR_FOLLOWER"])
def test_a_producer_ends_in_the_recorded_error(tmp_path, error):
    path = tmp_path / "dump"
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers, **QUICK) as producer:
        producer.send("orders", b"one", key=b"k").result(20)
        broker.fault("Produce", "error", error=error, times=None)
        recorded = failed(producer.send("orders", b"two").result)
        producer.dump_flight(path)
    with DevBroker.replay(path) as broker:
        assert same(send(broker.bootstrap_servers), recorded)


def test_an_error_that_passed_passes_again(tmp_path):
    path = tmp_path / "dump"
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        broker.fault("Produce", "error", error="NOT_ENOUGH_REPLICAS", times=2)
        producer.send("orders", b"one").result(20)
        producer.dump_flight(path)
    with DevBroker.replay(path) as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        assert producer.send("orders", b"one").result(20).offset == 0
        assert len(broker.requests("Produce")) == 3


@pytest.mark.parametrize(("fault", "kind"), [("drop", {}), ("delay", {"seconds": 3600})])
def test_requests_without_a_response_get_none_again(tmp_path, fault, kind):
    path = tmp_path / "dump"
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers, **QUICK) as producer:
        producer.send("orders", b"one", key=b"k").result(20)
        broker.fault("Produce", fault, times=None, **kind)
        recorded = failed(producer.send("orders", b"two").result)
        producer.dump_flight(path)
    lost = {"drop": "lost", "delay": "timed_out"}[fault]
    assert any(json.loads(line).get("kind") == lost for line in path.read_text().splitlines())
    with DevBroker.replay(path) as broker:
        assert same(send(broker.bootstrap_servers), recorded)


def test_a_consumer_gets_the_recorded_records_with_their_offsets(broker, tmp_path):
    path, topic = tmp_path / "dump", "orders"
    with klamm.Admin(broker.bootstrap_servers) as admin, klamm.Producer(broker.bootstrap_servers) as producer:
        admin.create_topics({topic: klamm.NewTopic(partitions=2)})
        try:
            for number in range(20):
                producer.send(topic, b"%d" % number, key=b"k", headers=[("h", b"v")], partition=number % 2).result(20)
            admin.delete_records({klamm.TopicPartition(topic, 0): 4})
            recorded = read(broker.bootstrap_servers, path, 16, flight_recorder_values=True)
        finally:
            admin.delete_topics([topic])
    with DevBroker.replay(path) as replayed:
        assert sorted(read(replayed.bootstrap_servers, None, 16)) == sorted(recorded)
        for api in ("Fetch", "Metadata"):
            used = {json.loads(line).get("version") for line in path.read_text().splitlines() if f'"{api}"' in line}
            assert {request.version for request in replayed.requests(api)} <= used


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_the_recorded_records(tmp_path, protocol):
    path, group = tmp_path / "dump", {"group_id": "g", "group_protocol": protocol}
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send("orders", b"%d" % number).result(20)
        recorded = read(broker.bootstrap_servers, path, 5, flight_recorder_values=True, **group)
    with DevBroker.replay(path) as broker:
        assert read(broker.bootstrap_servers, None, 5, **group) == recorded


def from_the_beginning(servers):
    """Let the share group start at the first record."""
    with klamm.Admin(servers) as admin:
        admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})


def share(servers, path=None):
    """Read two records in a share group."""
    found = []
    with klamm.ShareConsumer(servers, "g", ["orders"], flight_recorder_values=True, **QUICK_SHARE) as consumer:
        try:
            while len(found) < 2:
                found += consumer.poll(20)
        finally:
            if path is not None:
                consumer.dump_flight(path)
    return [(record.offset, record.value) for record in found]


def test_a_share_group_reads_the_recorded_records(tmp_path):
    path = tmp_path / "dump"
    with DevBroker() as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            for value in (b"one", b"two"):
                producer.send("orders", value, partition=0).result(20)
        from_the_beginning(broker.bootstrap_servers)
        recorded = share(broker.bootstrap_servers, path)
    with DevBroker.replay(path) as replayed:
        from_the_beginning(replayed.bootstrap_servers)
        assert share(replayed.bootstrap_servers) == recorded == [(0, b"one"), (1, b"two")]


def test_a_refused_member_of_a_share_group_is_refused_again(tmp_path):
    path = tmp_path / "dump"
    with DevBroker() as broker:
        with klamm.Admin(broker.bootstrap_servers) as admin:
            admin.create_topics({"orders": klamm.NewTopic()})
        broker.fault("ShareGroupHeartbeat", "error", error="GROUP_AUTHORIZATION_FAILED", times=None)
        recorded = failed(lambda: share(broker.bootstrap_servers, path))
    with DevBroker.replay(path) as replayed:
        assert same(failed(lambda: share(replayed.bootstrap_servers)), recorded)


def test_a_dump_without_values_has_the_topics_and_no_records(tmp_path):
    path = tmp_path / "dump"
    with DevBroker(default_partitions=3) as broker:
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("orders", b"a value of a record", partition=2).result(20)
        read(broker.bootstrap_servers, path, 1)
    assert b"a value of a record".hex() not in path.read_text()
    with DevBroker.replay(path) as broker, klamm.Consumer(broker.bootstrap_servers) as consumer:
        assert consumer.partitions_for("orders") == [0, 1, 2]
        consumer.assign([klamm.TopicPartition("orders", 2, offset=0)])
        assert len(consumer.poll(0.5)) == 0


def missing(servers, topic, path=None):
    options = {"topics": [topic], "allow_auto_create_topics": False, "default_api_timeout_ms": 1000}
    with klamm.Consumer(servers, "g", **options) as consumer:
        try:
            return failed(lambda: consumer.poll(20))
        finally:
            if path is not None:
                consumer.dump_flight(path)


def test_a_missing_topic_is_missing_again(broker, topic, tmp_path):
    path = tmp_path / "dump"
    recorded = missing(broker.bootstrap_servers, topic, path)
    with DevBroker.replay(path) as replayed:
        assert same(missing(replayed.bootstrap_servers, topic), recorded)


def test_a_refused_member_is_refused_again(tmp_path):
    path = tmp_path / "dump"

    def join(servers):
        with klamm.Consumer(servers, "g", ["orders"], default_api_timeout_ms=1000) as consumer:
            try:
                return failed(lambda: consumer.poll(20))
            finally:
                consumer.dump_flight(path)

    with DevBroker() as broker:
        broker.fault("FindCoordinator", "error", error="GROUP_AUTHORIZATION_FAILED", times=None)
        recorded = join(broker.bootstrap_servers)
    with DevBroker.replay(path) as broker:
        again = join(broker.bootstrap_servers)
    assert "GROUP_AUTHORIZATION_FAILED" in str(recorded)
    assert (type(again), "GROUP_AUTHORIZATION_FAILED" in str(again)) == (type(recorded), True)


def test_a_fenced_transaction_is_fenced_again(tmp_path):
    path = tmp_path / "dump"

    def commit(servers, broker=None):
        with klamm.Producer(servers, transactional_id="t") as producer:

            def work():
                with producer.transaction():
                    producer.send("orders", b"one").result(20)
                    if broker is not None:
                        broker.fault("EndTxn", "error", error="PRODUCER_FENCED", times=None)

            try:
                return failed(work)
            finally:
                producer.dump_flight(path)

    with DevBroker() as broker:
        recorded = commit(broker.bootstrap_servers, broker)
    with DevBroker.replay(path) as broker:
        assert same(commit(broker.bootstrap_servers), recorded)


def test_clear_faults_ends_the_recorded_errors(tmp_path):
    path = tmp_path / "dump"
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers, **QUICK) as producer:
        broker.fault("Produce", "error", error="INVALID_RECORD", times=None)
        failed(producer.send("orders", b"one").result)
        producer.dump_flight(path)
    with DevBroker.replay(path) as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        failed(producer.send("orders", b"one").result)
        broker.clear_faults()
        producer.send("orders", b"one").result(20)


HEAD = '{"flight":1,"klamm":"1","client_id":"c","started_us":1,"dropped":0}\n'
RESPONSE = {"at_us": 1, "kind": "response", "api": "Metadata", "version": 12, "correlation_id": 1, "broker": "h:1"}
BODY = '{"at_us":1,"kind":"response","api":"Metadata","version":12,"correlation_id":1,"broker":"h:1","body":"%s"}'


@pytest.mark.parametrize(
    "text",
    ["", "{}", "no json", '{"flight":2}', HEAD + "[]", HEAD + "{}", HEAD + BODY % "zz", HEAD + BODY % "00"],
)
def test_a_file_that_is_no_dump_is_an_error_with_a_hint(tmp_path, text):
    path = tmp_path / "dump"
    path.write_text(text)
    with pytest.raises(ConfigError, match="dump") as caught:
        DevBroker.replay(path)
    assert caught.value.hint


def test_recorded_topics_that_cannot_exist_are_an_error(tmp_path):
    path = tmp_path / "dump"
    topic = {"errorCode": 0, "name": "a topic", "isInternal": False, "partitions": []}
    body = {"brokers": [], "clusterId": None, "controllerId": 1, "topics": [topic]}
    text = klamm.protocol.encode("Metadata", "response", 9, body).hex()
    path.write_text(HEAD + json.dumps({**RESPONSE, "version": 9, "body": text}))
    with pytest.raises(ConfigError, match="a topic"), DevBroker.replay(path):
        pass


def test_an_error_code_that_klamm_does_not_know_is_an_unknown_error(tmp_path):
    path = tmp_path / "dump"
    error = {**RESPONSE, "api": "Produce", "version": 9, "errors": [{"code": "UNKNOWN", "topic": "orders"}]}
    path.write_text(HEAD + json.dumps(error))
    # An idempotent producer would send the batch again.
    config = {**QUICK, "enable_idempotence": False}
    with DevBroker.replay(path) as broker, klamm.Producer(broker.bootstrap_servers, **config) as producer:
        assert "UNKNOWN_SERVER_ERROR" in str(failed(producer.send("orders", b"one").result))


def test_the_unused_time_of_a_timeout_is_no_error(tmp_path):
    """A dump has requests that were in flight when it was written. They are no failures."""
    path = tmp_path / "dump"
    with DevBroker() as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send("orders", b"one").result(20)
        broker.fault("Produce", "delay", seconds=2)
        delivery = producer.send("orders", b"two")
        with pytest.raises(KafkaTimeoutError):
            delivery.result(0.5)
        producer.dump_flight(path)
        delivery.result(20)
    with DevBroker.replay(path) as broker, klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send("orders", b"one").result(20)
        producer.send("orders", b"two").result(20)
