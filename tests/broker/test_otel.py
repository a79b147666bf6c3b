"""`klamm.otel`: metrics and traces through OpenTelemetry's SDK, to an OTLP collector in this process."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import klamm
import klamm.otel
from klamm.exporters import client_number
from settled import until


class Collector:
    """A receiver of OTLP over HTTP."""

    def __init__(self):
        self.metrics, self.traces = [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/metrics":
                    collector.metrics.append(ExportMetricsServiceRequest.FromString(body))
                else:
                    collector.traces.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    def points(self):
        """Return the values of the last export: by name, pairs of attributes and value."""
        found = {}
        for resource in self.metrics[-1].resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        attributes = {a.key: a.value.string_value for a in point.attributes}
                        value = point.as_int or point.as_double
                        found.setdefault(metric.name, []).append((attributes, value))
        return found


@pytest.fixture
def spans():
    """A provider of tracers, and the spans that have ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter.get_finished_spans
    provider.shutdown()


def send(broker, topic, tracing, count=1, **fields):
    with klamm.Producer(broker.bootstrap_servers, interceptors=[tracing]) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, **fields).result(20)


def receive(broker, topic, count=1):
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, offset=0, end_offset=count)])
        return list(consumer)


def test_metrics_arrive_at_an_otlp_collector(broker, topic):
    with Collector() as collector:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.url}/v1/metrics"), 3_600_000)
        provider = MeterProvider([reader])
        with (
            klamm.Producer(broker.bootstrap_servers, client_id="sender") as producer,
            klamm.Consumer(broker.bootstrap_servers, client_id="reader") as consumer,
        ):
            consumer.assign([klamm.TopicPartition(topic, 0, offset=0)])
            klamm.otel.observe(producer, consumer, meter_provider=provider, details=True)
            producer.send_many(topic, [b"v"] * 3)
            producer.flush()
            assert consumer.poll(20)

            def collected():
                provider.force_flush()
                return "kafka.consumer.topic.records.consumed" in collector.points()

            until(collected)
            found = collector.points()
            number = str(client_number(producer))
        provider.shutdown()
    ((attributes, value),) = found["messaging.client.sent.messages"]
    assert value == 3
    assert attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.destination.name": topic,
        "messaging.client.id": "sender",
        "klamm.client": number,
    }
    ((attributes, value),) = found["messaging.client.consumed.messages"]
    assert (attributes["messaging.client.id"], attributes["messaging.operation.name"]) == ("reader", "poll")
    assert value >= 1
    ((attributes, value),) = found["kafka.producer.record.send"]
    assert (attributes, value) == ({"messaging.client.id": "sender", "klamm.client": number}, 3)
    assert [a["topic"] for a, _ in found["kafka.consumer.topic.records.consumed"]] == [topic]
    assert [a.keys() for a, _ in found["kafka.consumer.fetch.manager.records.consumed"]] == [attributes.keys()]


def test_clients_with_the_same_id_are_exported_apart(dev_broker):
    with Collector() as collector:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.url}/v1/metrics"), 3_600_000)
        provider = MeterProvider([reader])
        with (
            klamm.Producer(dev_broker.bootstrap_servers, client_id="shop") as one,
            klamm.Producer(dev_broker.bootstrap_servers, client_id="shop") as two,
        ):
            klamm.otel.observe(one, two, one, meter_provider=provider, details=True)
            one.send("t", b"v").result(20)
            two.send_many("t", [b"v"] * 2)
            two.flush()
            provider.force_flush()
            for name in ("messaging.client.sent.messages", "kafka.producer.record.send"):
                found = {a["klamm.client"]: value for a, value in collector.points()[name]}
                assert found == {str(client_number(one)): 1, str(client_number(two)): 2}, name
        provider.shutdown()


def test_without_details_only_the_conventional_metrics_are_exported(dev_broker):
    with Collector() as collector:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.url}/v1/metrics"), 3_600_000)
        provider = MeterProvider([reader])
        with klamm.Producer(dev_broker.bootstrap_servers) as producer:
            klamm.otel.observe(producer, meter_provider=provider)
            producer.send("t", b"v").result(20)
            provider.force_flush()
            assert set(collector.points()) == {"messaging.client.sent.messages"}
        provider.shutdown()


def test_a_collector_that_is_down_stops_no_client(dev_broker):
    reader = PeriodicExportingMetricReader(OTLPMetricExporter("http://127.0.0.1:1/v1/metrics", timeout=1), 3_600_000)
    provider = MeterProvider([reader])
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter("http://127.0.0.1:1/v1/traces", timeout=1)))
    tracing = klamm.otel.Tracing(tracers)
    with klamm.Producer(dev_broker.bootstrap_servers, interceptors=[tracing]) as producer:
        klamm.otel.observe(producer, meter_provider=provider)
        producer.send("t", b"v").result(20)
        provider.force_flush(2_000)
        producer.send("t", b"v").result(20)


def test_a_record_carries_the_context_of_its_producer_span(broker, topic, spans):
    provider, ended = spans
    tracing = klamm.otel.Tracing(provider)
    send(broker, topic, tracing, headers=[("kept", b"1")], key=b"k")
    (record,) = receive(broker, topic)
    (span,) = ended()
    assert (span.name, span.kind) == (f"create {topic}", SpanKind.PRODUCER)
    assert span.attributes["messaging.system"] == "kafka"
    assert span.attributes["messaging.destination.name"] == topic
    headers = dict(record.headers)
    assert headers["kept"] == b"1"
    version, trace_id, span_id, _ = headers["traceparent"].decode().split("-")
    assert (version, int(trace_id, 16), int(span_id, 16)) == ("00", span.context.trace_id, span.context.span_id)
    with tracing.process(record, "g") as processing:
        assert processing.is_recording()
    _, processed = ended()
    assert (processed.name, processed.kind) == (f"process {topic}", SpanKind.CONSUMER)
    assert [link.context.span_id for link in processed.links] == [span.context.span_id]
    assert processed.attributes["messaging.consumer.group.name"] == "g"
    assert processed.attributes["messaging.kafka.offset"] == 0
    assert processed.attributes["messaging.destination.partition.id"] == "0"


def test_a_batch_links_to_all_its_producers(broker, topic, spans):
    provider, ended = spans
    tracing = klamm.otel.Tracing(provider)
    send(broker, topic, tracing, 3)
    records = receive(broker, topic, 3)
    with tracing.receive(records):
        pass
    *created, batch = ended()
    assert batch.name == f"poll {topic}"
    assert batch.attributes["messaging.batch.message_count"] == 3
    assert [link.context.span_id for link in batch.links] == [span.context.span_id for span in created]


def test_a_span_within_another_is_its_child(dev_broker, topic, spans):
    provider, ended = spans
    tracing = klamm.otel.Tracing(provider)
    with provider.get_tracer("test").start_as_current_span("order") as order:
        send(dev_broker, topic, tracing)
    assert ended()[0].parent.span_id == order.get_span_context().span_id


def test_asyncio_producers_create_spans(style, dev_broker, topic, spans):
    provider, ended = spans
    with style.producer(dev_broker.bootstrap_servers, interceptors=[klamm.otel.Tracing(provider)]) as producer:
        producer.send(topic, b"v")
    (record,) = receive(dev_broker, topic)
    assert "traceparent" in dict(record.headers)
    assert len(ended()) == 1


def test_single_spans_batches_and_headers_can_be_left_out(dev_broker, topic, spans):
    provider, ended = spans
    quiet = klamm.otel.Tracing(provider, per_record=False, per_batch=False)
    with provider.get_tracer("test").start_as_current_span("order") as order:
        send(dev_broker, topic, quiet)
    (record,) = receive(dev_broker, topic)
    context = propagate.extract({name: value.decode() for name, value in record.headers})
    assert context
    assert dict(record.headers)["traceparent"].split(b"-")[2] == b"%016x" % order.get_span_context().span_id
    with quiet.process(record) as one, quiet.receive([record]) as all_of_them:
        assert (one, all_of_them) == (None, None)
    assert [span.name for span in ended()] == ["order"]
    bare = klamm.otel.Tracing(provider, inject=False)
    send(dev_broker, f"{topic}-bare", bare)
    (record,) = receive(dev_broker, f"{topic}-bare")
    assert list(record.headers) == []


def test_an_exception_marks_the_span(dev_broker, topic, spans):
    provider, ended = spans
    tracing = klamm.otel.Tracing(provider)
    send(dev_broker, topic, tracing)
    (record,) = receive(dev_broker, topic)
    with pytest.raises(KeyError), tracing.process(record):
        raise KeyError("order")
    assert ended()[-1].status.status_code == StatusCode.ERROR
    assert ended()[-1].attributes["error.type"] == "KeyError"


def test_a_span_does_not_deserialize_the_record(dev_broker, topic, spans):
    provider, ended = spans
    calls = []
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        for value in (b"not json", None):
            producer.send(topic, value, partition=0).result(20)
    with klamm.Consumer(
        dev_broker.bootstrap_servers, value_deserializer=lambda data: calls.append(data) or json.loads(data)
    ) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, offset=0, end_offset=2)])
        for record in consumer:
            with klamm.otel.Tracing(provider).process(record):
                pass
    assert calls == []
    assert [span.attributes.get("messaging.kafka.message.tombstone") for span in ended()] == [None, True]


def test_records_without_a_context_have_no_links(dev_broker, topic, spans):
    provider, ended = spans
    with klamm.Producer(dev_broker.bootstrap_servers) as producer:
        producer.send(topic, b"v", headers=[("traceparent", b"\xff\x00 damaged"), ("none", None)]).result(20)
    (record,) = receive(dev_broker, topic)
    with klamm.otel.Tracing(provider).process(record):
        pass
    assert ended()[-1].links == ()
