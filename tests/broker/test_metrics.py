"""`metrics()` of all clients: figures under the names of Java's metrics."""

from __future__ import annotations

import dataclasses
import typing

import pytest

import klamm
from klamm import metrics
from klamm.errors import AuthenticationError, KafkaError
from klamm.testing import CertificateAuthority, DevBroker
from settled import configure_group, until

KINDS = [metrics.ProducerMetrics, metrics.ConsumerMetrics, metrics.ShareConsumerMetrics, metrics.AdminMetrics]


def measured(found):
    """Return the names of the fields that the core fills."""
    return {metric.name.replace("-", "_") for metric in found.values if not metric.tags}


def declared(kind):
    """Return the names of the fields that hold one figure."""
    types = typing.get_type_hints(kind)
    return {f.name for f in dataclasses.fields(kind) if types[f.name] in {int, float}}


def ordered(p50, p99, p999, largest):
    assert 0 < p50 <= p99 <= p999 <= largest


def test_a_producer_measures_batches_requests_and_waits(style, broker, topic):
    with style.producer(broker.bootstrap_servers, compression_type="gzip", linger_ms=20) as producer:
        producer.send_many(topic, [b"v" * 1_000] * 500)
        producer.flush()
        found = producer.client.metrics()
        of_topic = found.topics[topic]
        assert found.record_send_total == of_topic.record_send_total == 500
        assert 0 < found.record_send_rate <= 500
        assert 0 < found.compression_rate_avg < 0.2
        assert of_topic.compression_rate == found.compression_rate_avg
        assert found.byte_total == of_topic.byte_total < 100_000
        ordered(found.batch_size_p50, found.batch_size_p99, found.batch_size_p999, found.batch_size_max)
        assert 1_000 < found.record_size_avg < 1_100
        assert found.records_per_request_avg >= 1
        ordered(
            found.request_latency_p50, found.request_latency_p99, found.request_latency_p999, found.request_latency_max
        )
        ordered(
            found.record_queue_time_p50,
            found.record_queue_time_p99,
            found.record_queue_time_p999,
            found.record_queue_time_max,
        )
        assert (found.record_error_total, found.record_retry_total, found.batch_split_total) == (0, 0, 0)
        assert (found.requests_in_flight, found.buffer_available_bytes) == (0, found.buffer_total_bytes)
        assert found.connection_count >= 1
        assert found.requests["Produce"].response_total == round(500 / found.records_per_request_avg)
        leader = max(found.brokers.values(), key=lambda node: node.outgoing_byte_total)
        assert leader.outgoing_byte_total > found.byte_total
        assert leader.request_total == leader.response_total
        ordered(
            leader.request_latency_p50,
            leader.request_latency_p99,
            leader.request_latency_p999,
            leader.request_latency_max,
        )
        assert found.outgoing_byte_total >= leader.outgoing_byte_total
        assert found.metadata_age > 0
    closed = producer.client.metrics()
    assert closed == found
    assert dataclasses.asdict(closed) == dataclasses.asdict(producer.client.metrics()), "a closed client measures on"


def test_a_consumer_measures_fetches_lag_polls_and_its_group(style, broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"v" * 100] * 1_000)
    config = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    with style.consumer(broker.bootstrap_servers, topic, [topic], **config) as consumer:
        first = consumer.poll(20, 10)
        assert len(first) == 10
        left = consumer.client.metrics().partitions[klamm.TopicPartition(topic, 0)]
        assert left.records_lag == 990
        taken = len(first)
        while taken < 1_000:
            taken += len(consumer.poll(20))
        consumer.commit()
        until(lambda: consumer.client.metrics().heartbeat_total)
        found = consumer.client.metrics()
        of_topic = found.topics[topic]
        assert found.records_consumed_total == of_topic.records_consumed_total == 1_000
        assert 100_000 < found.bytes_consumed_total == of_topic.bytes_consumed_total < 130_000
        assert 0 < found.records_consumed_rate <= 1_000
        assert 0 < of_topic.fetch_size_avg <= of_topic.fetch_size_max
        assert found.records_per_request_avg > 0
        assert found.fetch_total >= 1
        ordered(found.fetch_latency_p50, found.fetch_latency_p99, found.fetch_latency_p999, found.fetch_latency_max)
        ordered(
            found.end_to_end_latency_p50,
            found.end_to_end_latency_p99,
            found.end_to_end_latency_p999,
            found.end_to_end_latency_max,
        )
        partition = found.partitions[klamm.TopicPartition(topic, 0)]
        assert (partition.records_lag, partition.records_lead) == (0, 1_000)
        assert 0 <= found.records_lag_max <= 1_000
        assert found.assigned_partitions == 1
        assert found.commit_total == 1
        ordered(found.commit_latency_p50, found.commit_latency_p99, found.commit_latency_p999, found.commit_latency_max)
        assert found.rebalance_total == 1
        ordered(
            found.rebalance_latency_p50,
            found.rebalance_latency_p99,
            found.rebalance_latency_p999,
            found.rebalance_latency_max,
        )
        assert 0 <= found.last_rebalance_seconds_ago < 60
        assert found.join_total >= 1
        assert found.time_between_poll_max > 0
        assert 0 <= found.poll_idle_ratio_avg <= 1
        assert 0 <= found.last_poll_seconds_ago < 60


def test_iteration_polls_and_waits(style, broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number).result(20)
    partition = klamm.TopicPartition(topic, 0, offset=0, end_offset=3)
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([partition])
        assert len(list(consumer)) == 3
        found = consumer.client.metrics()
    assert found.records_consumed_total == 3
    assert 0 <= found.last_poll_seconds_ago < 60
    assert found.heartbeat_total == found.commit_total == 0
    assert found.last_heartbeat_seconds_ago == -1


def test_a_share_consumer_measures_deliveries_and_acknowledgements(style, broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
        configure_group(admin, topic, {"share.auto.offset.reset": "earliest"})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"v" * 100] * 50)
    with style.share_consumer(broker.bootstrap_servers, topic, [topic]) as consumer:
        taken = 0
        while taken < 50:
            taken += len(consumer.poll(20))
        consumer.commit()
        found = consumer.client.metrics()
    assert found.records_consumed_total == found.topics[topic].records_consumed_total == 50
    assert found.bytes_consumed_total >= 5_000
    assert (found.acknowledgements_send_total, found.acknowledgements_error_total) == (50, 0)
    assert found.fetch_total >= 1
    assert found.heartbeat_total >= 1
    assert found.rebalance_total == 1
    assert found.end_to_end_latency_max > 0


def test_an_admin_client_measures_its_requests(style, broker, topic):
    with style.admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
        found = admin.client.metrics()
    assert found.requests["CreateTopics"].response_total == 1
    assert found.requests["CreateTopics"].latency_max > 0
    assert found.request_total == found.response_total == found.network_io_total / 2
    assert found.outgoing_byte_total > 0
    assert found.incoming_byte_total > 0


def test_every_attribute_is_measured_and_every_figure_has_an_attribute(dev_broker, topic):
    with klamm.Admin(dev_broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic()})
        admin.alter_configs("group", f"{topic}-share", {"share.auto.offset.reset": "earliest"})
        found = [admin.metrics()]
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(20)
        found.append(producer.metrics())
    with (
        klamm.Consumer(dev_broker.bootstrap_servers, topic, [topic], auto_offset_reset="earliest") as consumer,
        klamm.ShareConsumer(dev_broker.bootstrap_servers, f"{topic}-share", [topic]) as share,
    ):
        assert consumer.poll(20)
        assert share.poll(20)
        until(lambda: consumer.metrics().heartbeat_total)
        found += [consumer.metrics(), share.metrics()]
        of_partition = consumer.metrics().partitions[klamm.TopicPartition(topic, 0)]
    own = {"buffered_bytes", "outstanding"}
    for each in found:
        assert measured(each) == declared(type(each)) - own, type(each)
    tagged = {metric.name.replace("-", "_") for each in found for metric in each.values if metric.tags}
    parts = [metrics.BrokerMetrics, metrics.TopicMetrics, metrics.ConsumerTopicMetrics, metrics.RequestMetrics]
    names = {name for part in parts for name in declared(part)} | {f.name for f in dataclasses.fields(of_partition)}
    assert tagged <= names


@pytest.mark.parametrize("kind", KINDS)
def test_every_attribute_is_documented(kind):
    documented = " ".join(parent.__doc__ or "" for parent in kind.__mro__)
    for name in declared(kind) - declared(metrics.ClientMetrics):
        stem = name.removesuffix("_rate").removesuffix("_per_hour").removesuffix("_rate")
        for suffix in ("_total", "_avg", "_max", "_p50", "_p99", "_p999"):
            stem = stem.removesuffix(suffix)
        if kind is metrics.ShareConsumerMetrics and name in declared(metrics.ConsumerMetrics):
            continue
        assert f"{stem}" in documented, name


def test_lost_connections_and_failed_attempts_are_counted():
    with DevBroker() as dev, klamm.Producer(dev.bootstrap_servers, reconnect_backoff_max_ms=50) as producer:
        producer.send("t", b"v").result(20)
        dev.kill(1)
        delivery = producer.send("t", b"v")
        until(lambda: producer.metrics().connection_failure_total >= 1)
        dev.start(1)
        delivery.result(30)
        until(lambda: producer.metrics().reconnection_total >= 1)
        found = producer.metrics()
        assert found.connection_close_total >= 1
        assert found.connection_count == found.connection_creation_total - found.connection_close_total


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_logins_and_refused_logins_are_counted(secured, listener):
    with klamm.Admin(secured.config(listener, "SCRAM-SHA-512")) as admin:
        admin.list_topics()
        found = admin.metrics()
        assert found.successful_authentication_total == found.connection_creation_total >= 1
        assert found.failed_authentication_total == 0
    with klamm.Admin(secured.config(listener, "SCRAM-SHA-512", sasl_password="wrong")) as admin:
        with pytest.raises(AuthenticationError):
            admin.list_topics()
        assert admin.metrics().failed_authentication_total >= 1
        assert admin.metrics().successful_authentication_total == 0


def test_tls_handshakes_count_as_authentications_as_in_java():
    with DevBroker(tls=True) as dev:
        with klamm.Admin(dev.client_config()) as admin:
            admin.list_topics()
            assert admin.metrics().successful_authentication_total >= 1
        stranger = {key: value for key, value in dev.client_config().items() if key != "ssl.ca.location"}
        stranger["ssl.ca.pem"] = CertificateAuthority().pem
        with klamm.Admin(stranger) as admin:
            with pytest.raises(AuthenticationError):
                admin.list_topics()
            assert admin.metrics().failed_authentication_total >= 1


def test_retries_and_errors_are_counted():
    with DevBroker() as dev, klamm.Producer(dev.bootstrap_servers, retry_backoff_ms=1) as producer:
        producer.send("t", b"v").result(20)
        dev.fault("Produce", "error", error="NOT_LEADER_OR_FOLLOWER", times=2)
        producer.send("t", b"v").result(20)
        assert producer.metrics().record_retry_total == producer.metrics().topics["t"].record_retry_total == 2
        dev.fault("Produce", "error", error="INVALID_RECORD")
        with pytest.raises(KafkaError):
            producer.send("t", b"v").result(20)
        assert producer.metrics().record_error_total == producer.metrics().topics["t"].record_error_total == 1


def test_throttling_is_measured():
    with DevBroker() as dev, klamm.Producer(dev.bootstrap_servers) as producer:
        producer.send("t", b"v").result(20)
        dev.fault("Produce", "throttle", seconds=0.05)
        producer.send("t", b"v").result(20)
        assert producer.metrics().produce_throttle_time_max == 50


def test_waiting_for_room_in_the_buffer_is_measured():
    with DevBroker() as dev, klamm.Producer(dev.bootstrap_servers, buffer_memory=20_000, linger_ms=5) as producer:
        for _ in range(200):
            producer.send("t", b"v" * 1_000)
        producer.flush(20)
        assert producer.metrics().bufferpool_wait_time_ns_total > 0
        assert 0 < producer.metrics().bufferpool_wait_ratio < 1


def test_a_client_that_was_never_used_has_metrics():
    with klamm.Producer("127.0.0.1:1") as producer, klamm.Consumer("127.0.0.1:1") as consumer:
        assert producer.metrics().record_send_total == 0
        assert producer.metrics().brokers == {}
        assert consumer.metrics().records_consumed_total == 0
        assert consumer.metrics().last_poll_seconds_ago == -1
