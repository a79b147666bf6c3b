"""`klamm.prometheus`: prometheus-client collects the metrics of klamm's clients."""

from __future__ import annotations

import gc
import logging
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families

import klamm
import klamm.prometheus


def samples(registry):
    """Return the samples of a scrape by name."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_scrape_has_the_metrics_of_all_clients(broker, topic):
    registry = CollectorRegistry()
    with (
        klamm.Producer(broker.bootstrap_servers, client_id="sender") as producer,
        klamm.Consumer(
            broker.bootstrap_servers, topic, [topic], auto_offset_reset="earliest", client_id="reader"
        ) as consumer,
        klamm.Admin(broker.bootstrap_servers) as admin,
    ):
        collector = klamm.prometheus.register(producer, registry=registry)
        collector.add(consumer)
        collector.add(admin)
        producer.send(topic, b"v").result(20)
        assert consumer.poll(20)
        admin.list_topics()
        found = samples(registry)
    ((labels, value),) = found["kafka_producer_record_send_total"]
    assert (labels["client_id"], value) == ("sender", 1)
    ((labels, value),) = found["kafka_producer_topic_record_send_total"]
    assert (labels["topic"], value) == (topic, 1)
    ((labels, value),) = found["kafka_consumer_partition_records_lag"]
    assert (labels["client_id"], labels["topic"], labels["partition"], value) == ("reader", topic, "0", 0)
    assert found["kafka_consumer_fetch_manager_records_consumed_total"][0][1] == 1
    assert found["kafka_consumer_topic_records_consumed_total"][0][0]["topic"] == topic
    assert {labels["node_id"] for labels, _ in found["kafka_producer_node_request_total"]} >= {"1"}
    assert {labels["client_id"] for labels, _ in found["kafka_admin_client_request_total"]} == {"klamm"}


def test_the_http_server_of_prometheus_client_serves_them(dev_broker):
    registry = CollectorRegistry()
    with klamm.Admin(dev_broker.bootstrap_servers) as admin:
        klamm.prometheus.register(admin, registry=registry)
        server, thread = start_http_server(0, "127.0.0.1", registry)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as page:
                assert b"kafka_admin_client_connection_count" in page.read()
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)


def test_each_metric_has_the_same_labels_everywhere(dev_broker, topic):
    registry = CollectorRegistry()
    with (
        klamm.Producer(dev_broker.bootstrap_servers) as producer,
        klamm.Consumer(dev_broker.bootstrap_servers) as reader,
    ):
        producer.send(topic, b"v").result(20)
        reader.assign([klamm.TopicPartition(topic, 0, offset=0)])
        assert reader.poll(20)
        klamm.prometheus.register(producer, reader, registry=registry)
        for name, found in samples(registry).items():
            assert len({frozenset(labels) for labels, _ in found}) == 1, name


def test_the_collector_does_not_keep_clients(dev_broker):
    registry = CollectorRegistry()
    producer = klamm.Producer(dev_broker.bootstrap_servers)
    collector = klamm.prometheus.register(producer, registry=registry)
    assert samples(registry)
    producer.close()
    del producer
    gc.collect()
    assert not samples(registry)
    with klamm.Admin(dev_broker.bootstrap_servers) as admin:
        collector.add(admin)
        assert samples(registry)
        collector.remove(admin)
        assert not samples(registry)


def test_a_client_that_fails_does_not_fail_the_scrape(dev_broker, caplog):
    class Broken:
        def metrics(self):
            raise ValueError("no metrics")

    registry, broken = CollectorRegistry(), Broken()
    with klamm.Admin(dev_broker.bootstrap_servers) as admin, caplog.at_level(logging.ERROR):
        klamm.prometheus.register(broken, admin, registry=registry)
        assert samples(registry)
        assert samples(registry)
    assert len(caplog.records) == 1


def test_names_are_valid_in_prometheus():
    metric = klamm.metrics.Metric("consumer-fetch-manager-metrics", "records-lag-max", {}, 1.0)
    assert klamm.prometheus.metric_name(metric) == "kafka_consumer_fetch_manager_records_lag_max"


@pytest.mark.parametrize("kind", [klamm.prometheus.KlammCollector])
def test_a_collector_describes_nothing_so_that_registering_asks_no_client(kind):
    assert kind().describe() == []
