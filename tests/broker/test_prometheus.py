"""`klamm.prometheus`: prometheus-client collects the metrics of klamm's clients."""

from __future__ import annotations

import gc
import logging
import re
import shutil
import subprocess
import urllib.request
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics import parser as openmetrics_parser
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
                assert b"kafka_admin_client_connections" in page.read()
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)


@pytest.fixture
def clients(dev_broker, topic):
    """Clients of all types that have done something, twice, with the same client IDs."""
    with ExitStack() as stack:
        opened = []
        for number in range(2):
            transactional = klamm.Producer(dev_broker.bootstrap_servers, transactional_id=f"{topic}-{number}")
            group = klamm.Consumer(
                dev_broker.bootstrap_servers, f"{topic}-{number}", [topic], auto_offset_reset="earliest"
            )
            assigned = klamm.Consumer(dev_broker.bootstrap_servers)
            share = klamm.ShareConsumer(dev_broker.bootstrap_servers, f"share-{topic}-{number}", [topic])
            admin = klamm.Admin(dev_broker.bootstrap_servers)
            producer = klamm.Producer(dev_broker.bootstrap_servers)
            added = [producer, transactional, group, assigned, share, admin]
            for client in added:
                stack.enter_context(client)
            opened += added
            producer.send(topic, b"v").result(20)
            transactional.init_transactions()
            with transactional.transaction():
                transactional.send(topic, b"v")
            share.poll(0)
            assert group.poll(20)
            group.commit()
            assigned.assign([klamm.TopicPartition(topic, 0, offset=0)])
            assert assigned.poll(20)
            admin.list_topics()
        yield opened


@pytest.fixture
def registry(clients):
    """A registry that was given the clients in several calls, one of them twice."""
    registry = CollectorRegistry()
    for client in (*clients, clients[0]):
        klamm.prometheus.register(client, registry=registry)
    return registry


def test_each_metric_has_the_same_labels_everywhere(registry):
    for name, found in samples(registry).items():
        assert len({frozenset(labels) for labels, _ in found}) == 1, name


def test_each_series_is_exported_once(registry):
    lines = generate_latest(registry).decode().splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    families = [line.split()[:3] for line in lines if line.startswith("#")]
    assert len(series) > 500
    assert len(series) == len(set(series))
    assert len(families) == len(set(map(tuple, families)))


def test_each_name_stands_for_one_metric(clients):
    metrics = {}
    for client in clients:
        for metric in client.metrics().values:
            found = (metric.group, metric.name, tuple(metric.tags))
            assert metrics.setdefault(klamm.prometheus.metric_name(metric), found) == found


def test_a_scrape_is_valid_openmetrics(registry):
    text = openmetrics.generate_latest(registry).decode()
    assert list(openmetrics_parser.text_string_to_metric_families(text))


def test_the_names_follow_the_rules_of_prometheus(registry):
    for family in registry.collect():
        assert family.documentation
        assert re.fullmatch(r"kafka_[a-z0-9_]+", family.name)
        assert not re.search(r"_(count|sum|bucket|total|info)$", family.name), family.name
        assert not re.search(r"_(ns|us|ms|sec|min|b|kb|mb)(_|$)", family.name.replace("_min_", "")), family.name
        assert not {"le", "quantile"} & family.samples[0].labels.keys()
    if promtool := shutil.which("promtool"):
        text = generate_latest(registry)
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_series_keeps_its_labels_while_its_client_lives(dev_broker):
    def label_of(sent):
        found = samples(registry)["kafka_producer_record_send_total"]
        return [labels["client"] for labels, value in found if value == sent]

    registry = CollectorRegistry()
    one, two = (klamm.Producer(dev_broker.bootstrap_servers, client_id="shop") for _ in range(2))
    klamm.prometheus.register(one, registry=registry)
    klamm.prometheus.register(two, registry=registry)
    two.send_many("t", [b"v"] * 3)
    two.flush()
    before = label_of(3)
    assert len(before) == 1
    one.close()
    del one
    gc.collect()
    with klamm.Producer(dev_broker.bootstrap_servers, client_id="shop") as three:
        klamm.prometheus.register(three, registry=registry)
        three.send("t", b"v").result(20)
        assert label_of(3) == before
        assert label_of(1) != before
    other = CollectorRegistry()
    klamm.prometheus.register(two, registry=other)
    ((labels, _),) = samples(other)["kafka_producer_record_send_total"]
    assert [labels["client"]] == before
    two.close()


def test_after_unregistering_only_new_clients_are_exported(dev_broker):
    registry = CollectorRegistry()
    with klamm.Admin(dev_broker.bootstrap_servers) as old, klamm.Admin(dev_broker.bootstrap_servers) as new:
        registry.unregister(klamm.prometheus.register(old, registry=registry))
        assert not samples(registry)
        klamm.prometheus.register(new, registry=registry)
        assert len(samples(registry)["kafka_admin_client_connections"]) == 1


def test_a_time_in_nanoseconds_is_exported_in_seconds(dev_broker):
    registry = CollectorRegistry()
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        klamm.prometheus.register(producer, registry=registry)
        assert "kafka_producer_bufferpool_wait_time_seconds_total" in samples(registry)


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
