"""Telemetry (KIP-714) with Apache Kafka 4.4, whose class path has a receiver."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

import klamm
from kafka_broker import SMALL_JVM, KafkaUnavailable, RealKafka, find_java, kafka_jars
from settled import until

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def receiving(tmp_path_factory):
    """A broker that asks for all metrics every 200 ms, and the file with what its receiver got."""
    home = tmp_path_factory.mktemp("receiver")
    received = home / "received"
    try:
        javac, jars = Path(find_java()).resolve().with_name("javac"), kafka_jars()
        if not javac.exists():
            pytest.skip("javac is not installed")
        source = str(SUPPORT / "TelemetryReceiver.java")
        subprocess.run([str(javac), "-nowarn", "-cp", f"{jars}/*", "-d", str(home), source], check=True, timeout=120)
        kafka = RealKafka(
            config={"metric.reporters": "TelemetryReceiver"},
            jvm_options=[*SMALL_JVM, f"-Dtelemetry.file={received}"],
            classes=home,
        ).start()
    except KafkaUnavailable as reason:
        pytest.skip(f"real Kafka: {reason}")
    try:
        with klamm.Admin(kafka.bootstrap_servers, enable_metrics_push=False) as admin:
            admin.alter_configs("client-metrics", "all", {"metrics": "*", "interval.ms": "200"})
            until(lambda: admin.describe_configs("client-metrics", "all")["interval.ms"].value == "200")
        yield kafka.bootstrap_servers, received
    finally:
        kafka.stop()


def pushes(received, client):
    """Return what a client pushed: whether each push was the last, and its message."""
    # The receiver may be writing its last line.
    whole, _, _ = (received.read_text() if received.exists() else "").rpartition("\n")
    fields = [line.split(" ") for line in whole.splitlines() if line.startswith(f"{client} ")]
    return [(last == "true", MetricsData.FromString(base64.b64decode(data))) for _, last, data in fields]


def metrics(data):
    """Return the metrics of a message by name."""
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_a_receiver_in_kafka_gets_the_metrics_of_a_producer(receiving, topic):
    servers, received = receiving
    with klamm.Producer(servers, transactional_id=None) as producer:
        client = producer.client_instance_id(30)
        producer.send(topic, b"v").result(30)
        producer.register_metric("myapp.orders", lambda: 7)
        until(lambda: any("myapp.orders" in metrics(data) for _, data in pushes(received, client)))
    until(lambda: pushes(received, client)[-1][0])
    last = metrics(pushes(received, client)[-1][1])
    sent = last["org.apache.kafka.producer.record.send.total"]
    assert sent.sum.is_monotonic
    assert sum(point.as_int or point.as_double for point in sent.sum.data_points) >= 0
    assert last["org.apache.kafka.producer.request.latency.avg"].WhichOneof("data") == "gauge"


def test_a_receiver_in_kafka_gets_the_labels_of_a_consumer(receiving, topic):
    servers, received = receiving
    with klamm.Consumer(servers, topic, [topic], client_rack="r1") as consumer:
        client = consumer.client_instance_id(30)
        consumer.poll(0.1)
        until(lambda: pushes(received, client))
    _, data = pushes(received, client)[0]
    labels = {a.key: a.value.string_value for a in data.resource_metrics[0].resource.attributes}
    assert labels == {"group_id": topic, "client_rack": "r1"}
